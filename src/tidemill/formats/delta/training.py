"""The training run of the start-up archive: a small but real day in the life of a Delta table.

Run as `python -m tidemill.formats.delta.training FILE`; what it loads is what FILE will hold.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(archive: str) -> None:
    spark = session.start([f"-XX:ArchiveClassesAtExit={archive}"])
    with tempfile.TemporaryDirectory(prefix="tidemill-training-") as folder:
        _work(spark, Path(folder))
    session.stop(wait=True)


def _work(spark: SparkSession, folder: Path) -> None:
    table = f"delta.`{folder / 'table'}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, value DOUBLE, s STRING, part INT, seen TIMESTAMP) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.isolationLevel' = 'Serializable')"
    )
    rows = spark.sql("SELECT id, id / 3D value, concat('s', id) s, 1 part, current_timestamp() seen FROM range(500)")
    rows.write.format("delta").mode("append").option("userMetadata", "{}").save(str(folder / "table"))
    for kind in ("parquet", "csv", "json"):
        rows.write.format(kind).save(str(folder / kind))
        spark.read.format(kind).schema(rows.schema).load(str(folder / kind)).count()
    change = spark.read.parquet(str(folder / "parquet")).where("id % 7 = 0").localCheckpoint()
    change.selectExpr("count(*)", "min(id)", "max(seen)", "count(DISTINCT id)").collect()
    change.groupBy("id").count().where("count > 1").take(5)
    change.selectExpr("id + 100 id", "value * 2 value", "s", "part", "seen").createOrReplaceTempView("change")
    spark.sql(
        f"MERGE INTO {table} t USING change c ON t.id = c.id AND t.id >= 100 "
        "WHEN MATCHED AND NOT (t.value <=> c.value) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).collect()
    spark.sql(f"DELETE FROM {table} WHERE id = 3").collect()
    rows.where("id < 20").write.format("delta").mode("overwrite").option("replaceWhere", "id < 20").save(
        str(folder / "table")
    )
    spark.sql(f"DESCRIBE HISTORY {table}").collect()
    spark.read.format("delta").load(str(folder / "table")).orderBy("id").take(10)
    spark.createDataFrame([(1, "a")], "id INT, s STRING").toPandas()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except TidemillError as error:
        sys.exit(str(error))
