"""The script that `tidemill merge` is timed against, cold: a plain MERGE in PySpark, as people write it."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    change, table, jars = sys.argv[1:4]
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.jars", jars)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    spark.read.parquet(change).createOrReplaceTempView("change")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING change s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ).show()


if __name__ == "__main__":
    main()
