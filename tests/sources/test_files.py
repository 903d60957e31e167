from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import lit, spark_partition_id
from pyspark.sql.types import StructType

from tidemill.declarations import Source
from tidemill.errors import ArgumentError, ConnectorError, Origin
from tidemill.model.cursor import cursor
from tidemill.sources import Reading
from tidemill.sources.files import FileSource
from tidemill.sources.registry import connector_for, failures_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def put(folder: Path, name: str, *lines: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")


def files(folder: Path, kind: str, path: Any = "data", **params: Any) -> Source:
    return Source("orders", kind, {"path": path, **params}, folder=folder, origin=Origin("shop.sql", 3))


def rows(spark: SparkSession, source: Source, like: str | None = None) -> list[tuple[Any, ...]]:
    reading = Reading(spark, StructType.fromDDL(like) if like else None)
    with failures_of(source):
        return sorted((tuple(row) for row in connector_for(source).read(reading).collect()), key=str)


def types(spark: SparkSession, source: Source, like: str | None = None) -> dict[str, str]:
    reading = Reading(spark, StructType.fromDDL(like) if like else None)
    return {f.name: f.dataType.simpleString() for f in connector_for(source).schema(reading).fields}


def test_csv_has_a_header_and_its_types_are_inferred(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,day,at,name", '1,2024-01-02,2024-01-02T10:00:00.123456Z,"say ""hi"""', "2,,,")
    assert types(spark, files(tmp_path, "CSV")) == {"id": "bigint", "day": "date", "at": "timestamp", "name": "string"}
    at = datetime.fromisoformat("2024-01-02T10:00:00.123456")
    assert rows(spark, files(tmp_path, "csv")) == [(1, date(2024, 1, 2), at, 'say "hi"'), (2, None, None, None)]


def test_times_of_a_day_that_csv_does_not_tell_are_texts(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,opens,at", "1,,2024-01-02 10:00", "2,9:30,2024-01-02", "3,T10:00:00,")
    assert types(spark, files(tmp_path, "csv")) == {"id": "bigint", "opens": "string", "at": "timestamp"}
    moments = [datetime.fromisoformat("2024-01-02T10:00:00"), datetime.fromisoformat("2024-01-02T00:00:00"), None]
    assert [row[2] for row in rows(spark, files(tmp_path, "csv"))] == moments


def test_digits_that_are_no_number_stay_texts(spark, tmp_path):
    lines = [f"{n},10001,1{n},7{n},{n}.5" for n in range(1100)]
    put(tmp_path, "data/a.csv", "id,zip,phone,room,amount", *lines, "1100,02134,+49,10d,12345678901234567")
    assert types(spark, files(tmp_path, "csv")) == {
        "id": "bigint",
        "zip": "string",
        "phone": "string",
        "room": "string",
        "amount": "string",
    }
    assert ("1100", "02134", "+49", "10d", "12345678901234567") in [
        tuple(map(str, row)) for row in rows(spark, files(tmp_path, "csv"))
    ]


def test_has_header_says_whether_csv_has_one(spark, tmp_path):
    put(tmp_path, "data/a.csv", "1,a", "2,b")
    assert rows(spark, files(tmp_path, "csv", has_header=False)) == [(1, "a"), (2, "b")]


def test_files_that_end_in_tsv_are_separated_by_tabs(spark, tmp_path):
    put(tmp_path, "data/a.tsv", "id\tname", "1\ta,b", '2\t"c\td"')
    assert FileSource(str(tmp_path / "data")).read(Reading(spark)).collect() == [(1, "a,b"), (2, "c\td")]
    put(tmp_path, "data/a.tsv", "id;name", "1;a")
    assert rows(spark, files(tmp_path, "TSV", delimiter=";")) == [(1, "a")]


def test_few_bytes_are_read_by_one_task_and_many_by_several(spark, tmp_path):
    for name in "abc":
        put(tmp_path, f"few/{name}.csv", "id,name", f"1,{name}")
        put(tmp_path, f"many/{name}.csv", "id,name", *[f"{n},{name * 100}" for n in range(10_000)])

    def tasks(path: str) -> int:
        rows = connector_for(files(tmp_path, "csv", path)).read(Reading(spark))
        return rows.select(spark_partition_id()).distinct().count()

    assert tasks("few") == 1
    assert tasks("many") > 1


def test_parquet_files_that_spark_wrote_tell_their_columns_as_spark_would(spark, tmp_path):
    ddl = "id BIGINT, `a.b` STRING, at TIMESTAMP_NTZ, s STRUCT<x: ARRAY<DECIMAL(5,2)>, m: MAP<STRING, DATE>>"
    made = spark.createDataFrame([(1, None, None, None), (2, None, None, None)], ddl).repartition(2, "id")
    for path, rows in {"same": made, "more": made, "folders": made.withColumn("day", lit(1))}.items():
        writer = rows.write.partitionBy("day") if path == "folders" else rows.write
        writer.parquet(str(tmp_path / path))
    made.withColumn("more", lit(1)).write.mode("append").parquet(str(tmp_path / "more"))
    for path in ("same", "more", "folders"):
        spark_says = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / path)).schema
        assert connector_for(files(tmp_path, "parquet", path)).schema(Reading(spark)) == spark_says, path


def test_csv_takes_the_types_of_its_table(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,zip,amount", "1,01234,1.10", "2,x,2")
    assert rows(spark, files(tmp_path, "csv"), "ID BIGINT, zip STRING, amount DECIMAL(10,2)") == [
        (1, "01234", Decimal("1.10")),
        (2, "x", Decimal("2.00")),
    ]


def test_a_column_that_the_table_does_not_have_is_inferred(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,new", "1,7")
    assert types(spark, files(tmp_path, "csv"), "id STRING") == {"id": "string", "new": "bigint"}


def test_types_can_be_given(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,zip", "1,01234")
    assert types(spark, files(tmp_path, "csv", types={"zip": "string"})) == {"id": "bigint", "zip": "string"}
    with pytest.raises(ConnectorError, match=r"The source orders has no column zpi. Did you mean zip\?"):
        types(spark, files(tmp_path, "csv", types={"zpi": "string"}))
    put(tmp_path, "bare/a.csv", "1;01234")
    bare = files(tmp_path, "csv", "bare", header=False, sep=";", schema="id BIGINT, zip STRING")
    assert rows(spark, bare) == [(1, "01234")]


def test_a_row_that_does_not_fit_is_an_error_that_names_the_source(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,amount", "1,2", "two,3")
    with pytest.raises(ConnectorError) as error:
        rows(spark, files(tmp_path, "csv"), "id BIGINT, amount INT")
    assert error.value.code == "source.unreadable"
    assert error.value.problem.endswith(
        'data/a.csv. Malformed records are detected in record parsing: [null,3]. For input string: "two"'
    )
    assert error.value.problem.startswith("The source orders could not be read: ")
    assert str(error.value.origin) == "shop.sql:3"
    put(tmp_path, "data/a.csv", "id,amount", "1,2,3")
    with pytest.raises(ConnectorError):
        rows(spark, files(tmp_path, "csv"), "id BIGINT, amount INT")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("n", "1.239", "decimal(10,2)"),
        ("n", "123456789", "decimal(10,2)"),
        ("d", "2024-01-02 10:30:00", "date"),
        ("d", "2024", "date"),
        ("t", "10:00", "timestamp"),
    ],
)
def test_a_text_is_neither_rounded_nor_cut_to_fit(spark, tmp_path, name, value, kind):
    put(tmp_path, "data/a.csv", f"id,{name}", "1,", f"2,{value}")
    put(tmp_path, "data/a.json", json.dumps({"id": 1, name: value}))
    put(tmp_path, "data/deep.json", json.dumps({"id": 1, "s": {"l": [{"m": {name: value}}]}}))
    told = rf"{name} is {re.escape(kind)}, and a row has {value}"
    with pytest.raises(ConnectorError, match=told):
        rows(spark, files(tmp_path, "csv", "data/a.csv"), f"id INT, {name} {kind}")
    with pytest.raises(ConnectorError, match=told):
        rows(spark, files(tmp_path, "json", "data/a.json"), f"id INT, {name} {kind}")
    with pytest.raises(ConnectorError, match=rf"s\.l\.m is {re.escape(kind)}, and a row has {value}"):
        rows(
            spark,
            files(tmp_path, "json", "data/deep.json"),
            f"id INT, s STRUCT<l: ARRAY<STRUCT<m: MAP<STRING, {kind}>>>>",
        )


def test_a_text_that_says_more_than_it_needs_fits(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,n,d,big", "1,1.1000,2024-01-02 00:00:00," + "9" * 38, "2,1e2,2024-1-2,", "3,,,")
    assert rows(spark, files(tmp_path, "csv"), "id INT, n DECIMAL(5,2), d DATE, big DECIMAL(38,0)") == [
        (1, Decimal("1.10"), date(2024, 1, 2), Decimal("9" * 38)),
        (2, Decimal("100.00"), date(2024, 1, 2), None),
        (3, None, None, None),
    ]
    put(tmp_path, "local/a.csv", "id;n;d", "1;1,50;02.01.2024")
    local = files(tmp_path, "csv", "local", sep=";", locale="de", dateFormat="dd.MM.yyyy")
    assert rows(spark, local, "id INT, n DECIMAL(5,2), d DATE") == [(1, Decimal("1.50"), date(2024, 1, 2))]


def test_columns_of_csv_files_are_known_by_their_names_and_those_that_a_file_has_not_are_null(spark, tmp_path):
    put(tmp_path, "data/day=1/a.csv", "id,amount", "1,2")
    put(tmp_path, "data/day=1/b.csv", "amount,id", "2.5,3")
    put(tmp_path, "data/day=2/c.csv", '"id",amount,note', "4,5,x")
    (tmp_path / "data/day=2/empty.csv").touch()
    found = files(tmp_path, "csv")
    assert types(spark, found) == {"id": "bigint", "amount": "double", "note": "string", "day": "bigint"}
    assert rows(spark, found) == [(1, 2.0, 1, None), (3, 2.5, 1, None), (4, 5.0, 2, "x")]
    assert types(spark, files(tmp_path, "csv", types={"note": "date"}), "amount DECIMAL(5,1)") == {
        "id": "bigint",
        "amount": "decimal(5,1)",
        "note": "date",
        "day": "bigint",
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_csv_text_in_quotes_may_go_on_in_the_next_lines(spark, tmp_path, end):
    lines = ("id,note", '1,"one', '2,two"', '3,"say ""hi""', '"', '4,5" wide')
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_bytes(end.join([*lines, ""]).encode())
    assert rows(spark, files(tmp_path, "csv")) == [(1, "one\n2,two"), (3, 'say "hi"\n'), (4, '5" wide')]


def test_csv_in_another_encoding_is_an_error_unless_it_is_named(spark, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_bytes("id,city\n1,Köln\n".encode("latin-1"))
    with pytest.raises(ConnectorError) as error:
        rows(spark, files(tmp_path, "csv"))
    assert error.value.code == "source.not_utf8"
    assert error.value.problem.endswith(r"data/a.csv is no UTF-8 text: it holds b'1,K\xf6ln'.")
    assert rows(spark, files(tmp_path, "csv", encoding="ISO-8859-1")) == [(1, "Köln")]


def test_csv_in_wide_letters_is_read(spark, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.csv").write_bytes("id,city\n1,Köln\n2,Łódź\n".encode("utf-16"))
    assert rows(spark, files(tmp_path, "csv", encoding="UTF-16")) == [(1, "Köln"), (2, "Łódź")]


def test_json_texts_that_are_moments_are_timestamps_and_others_stay_texts(spark, tmp_path):
    put(
        tmp_path,
        "data/a.json",
        '{"id": 1, "seen_at": "2024-01-02T10:00:00.5Z", "zip": "12345", "year": "2024"}',
        '{"id": 2, "seen_at": "2024-01-02T10:00:00+01:00", "zip": "1", "year": "x"}',
    )
    assert types(spark, files(tmp_path, "JSON")) == {
        "id": "bigint",
        "seen_at": "timestamp",
        "year": "string",
        "zip": "string",
    }
    assert [row[1] for row in rows(spark, files(tmp_path, "JSON"))] == [
        datetime.fromisoformat("2024-01-02T10:00:00.500000"),
        datetime.fromisoformat("2024-01-02T09:00:00"),
    ]


def test_json_fields_that_no_row_has_are_null_with_the_types_of_the_table(spark, tmp_path):
    put(tmp_path, "data/a.json", '{"id": 1, "new": [1]}')
    assert types(spark, files(tmp_path, "json"), "id INT, note STRING, price DECIMAL(9,2)") == {
        "id": "int",
        "new": "array<bigint>",
        "note": "string",
        "price": "decimal(9,2)",
    }
    put(tmp_path, "data/a.json", '{"id": 1, "price": 1.10}', '{"id": 2, "price": null}')
    assert rows(spark, files(tmp_path, "json"), "id INT, price DECIMAL(9,2)") == [(1, Decimal("1.10")), (2, None)]


def test_json_fields_inside_columns_are_read_though_the_table_lacks_them(spark, tmp_path):
    put(tmp_path, "data/a.json", '{"id": 1, "who": {"Name": "a", "new": 1}, "all": [{"new": true}, {"n": 2}]}')
    table = "id INT, who STRUCT<name: STRING, age: INT>, all ARRAY<STRUCT<n: DECIMAL(5,1)>>"
    assert types(spark, files(tmp_path, "json"), table) == {
        "all": "array<struct<n:decimal(5,1),new:boolean>>",
        "id": "int",
        "who": "struct<Name:string,new:bigint,age:int>",
    }
    assert rows(spark, files(tmp_path, "json"), table) == [([(None, True), (Decimal(2), None)], 1, ("a", 1, None))]


def test_values_inside_of_json_columns_are_exact(spark, tmp_path):
    put(tmp_path, "data/a.json", '{"id": 1, "s": {"n": 1.10, "d": "2024-01-02"}, "l": [0.5, null]}', '{"id": 2}')
    assert rows(
        spark, files(tmp_path, "json"), "id INT, s STRUCT<n: DECIMAL(5,2), d: DATE>, l ARRAY<DECIMAL(2,1)>"
    ) == [
        (1, [Decimal("0.5"), None], (date(2024, 1, 2), Decimal("1.10"))),
        (2, None, None),
    ]


def test_a_json_file_may_be_one_value_that_goes_over_its_lines(spark, tmp_path):
    put(tmp_path, "data/a.json", json.dumps([{"id": 1}, {"id": 2}], indent=2))
    put(tmp_path, "data/b.json", json.dumps({"id": 3}, indent=2))
    assert rows(spark, files(tmp_path, "json")) == [(1,), (2,), (3,)]


def test_json_fields_of_one_name_are_an_error(spark, tmp_path):
    put(tmp_path, "data/a.json", '{"id": 1, "v": 1}', '{"id": 2, "V": 2}')
    with pytest.raises(ConnectorError) as error:
        rows(spark, files(tmp_path, "json"))
    assert error.value.code == "source.duplicate_columns"
    assert error.value.problem.endswith("data has the field v twice, perhaps in another case.")


def test_json_that_does_not_fit_is_an_error(spark, tmp_path):
    put(tmp_path, "data/a.json", '{"id": 1}', '{"id": ')
    with pytest.raises(ConnectorError) as error:
        rows(spark, files(tmp_path, "json"))
    assert str(error.value).startswith(
        f"[source.not_json_lines] The source orders could not be read: {tmp_path}/data has lines that are no JSON "
        "object. Write each object in one line, as jq -c does; a file may also be one object or one array of objects."
    )
    put(tmp_path, "data/a.json", '{"id": 1, "price": 1.10}', '{"id": 2, "price": 1.239}')
    with pytest.raises(ConnectorError, match=r"price is decimal\(9,2\), and a row has 1.239"):
        rows(spark, files(tmp_path, "json"), "id INT, price DECIMAL(9,2)")
    put(tmp_path, "data/a.json", '{"id": 1}', '{"id": "two"}')
    with pytest.raises(ConnectorError):
        rows(spark, files(tmp_path, "json"), "id INT")


def parquet(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_columns_that_only_some_parquet_files_have_are_read(spark, tmp_path):
    parquet(tmp_path / "data/a.parquet", id=[1])
    parquet(tmp_path / "data/b.parquet", id=[2], new=["x"])
    assert rows(spark, files(tmp_path, "parquet")) == [(1, None), (2, "x")]


def test_partitions_are_columns_and_other_folders_are_read_too(spark, tmp_path):
    parquet(tmp_path / "data/day=2024-01-01/a.parquet", id=[1])
    parquet(tmp_path / "data/day=2024-01-02/a.parquet", id=[2])
    assert rows(spark, files(tmp_path, "parquet")) == [(1, date(2024, 1, 1)), (2, date(2024, 1, 2))]
    put(tmp_path, "nested/2024/01/a.csv", "id", "1")
    put(tmp_path, "nested/2024/02/a.csv", "id", "2")
    assert rows(spark, files(tmp_path, "csv", "nested")) == [(1,), (2,)]


def test_patterns_lists_and_odd_names(spark, tmp_path):
    put(tmp_path, "data/a[1].csv", "id", "1")
    put(tmp_path, "data/b {x}.csv", "id", "2")
    put(tmp_path, "data/c.csv", "id", "3")
    assert rows(spark, files(tmp_path, "csv", "data/*.csv")) == [(1,), (2,), (3,)]
    assert rows(spark, files(tmp_path, "csv", "data/a[1].csv")) == [(1,)]
    assert rows(spark, files(tmp_path, "csv", ["data/b {x}.csv", "data/c.csv"])) == [(2,), (3,)]


def test_only_the_columns_asked_for_are_given(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,name,at", "1,x,2024-01-01")
    connector = connector_for(Source("orders", "csv", {"path": str(tmp_path / "data")}, columns=("AT", "id")))
    assert connector.read(Reading(spark)).columns == ["at", "id"]
    assert connector.read(Reading(spark), ["name"]).columns == ["name"]
    with pytest.raises(ConnectorError, match=r"The source orders has no column nam. Did you mean name\?"):
        connector.read(Reading(spark), ["nam"])


def test_read_since_gives_ties_and_nulls_and_skips_files(spark, tmp_path):
    spark.sql("SELECT id, timestamp_micros(id) at FROM range(10)").coalesce(1).write.parquet(str(tmp_path / "data"))
    spark.sql("SELECT 99L id, CAST(NULL AS TIMESTAMP) at").write.mode("append").parquet(str(tmp_path / "data"))
    connector = connector_for(files(tmp_path, "parquet"))
    since = cursor("timestamp", datetime.fromtimestamp(8e-6, UTC).isoformat())
    found = connector.read_since(Reading(spark), "AT", since, ["id"])
    assert sorted(row.id for row in found.collect()) == [8, 9, 99]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [Or(GreaterThanOrEqual(at," in plan


def test_read_since_skips_files_of_a_delta_table(spark, tmp_path):
    for start in (0, 10, 20):
        rows = spark.sql(f"SELECT id, timestamp_seconds(id) at FROM range({start}, {start + 10})").coalesce(1)
        rows.write.format("delta").mode("append").save(str(tmp_path / "data"))
    since = cursor("timestamp", datetime.fromtimestamp(25, UTC).isoformat())
    found = connector_for(files(tmp_path, "delta")).read_since(Reading(spark), "at", since)
    assert len(found.collect()) == 5
    scan = found._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numFiles").value() == 1


def test_nothing_there_is_an_error_that_names_the_source(spark, tmp_path):
    with pytest.raises(ConnectorError) as error:
        rows(spark, files(tmp_path, "csv", "no/*.csv"))
    assert error.value.code == "source.missing"
    assert error.value.problem == (f"The source orders could not be read: There is nothing at {tmp_path}/no/*.csv.")


def test_an_empty_folder_is_an_empty_source_once_its_columns_are_known(spark, tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(ConnectorError, match="The source orders has no files yet, so its columns are not known"):
        rows(spark, files(tmp_path, "csv"))
    assert rows(spark, files(tmp_path, "csv"), "id INT") == []
    assert types(spark, files(tmp_path, "csv", schema="a INT")) == {"a": "int"}


def test_a_header_alone_is_an_empty_source(spark, tmp_path):
    put(tmp_path, "data/a.csv", "id,name")
    assert rows(spark, files(tmp_path, "csv"), "id INT, name STRING") == []


def test_the_version_of_files_is_known_without_spark(tmp_path):
    put(tmp_path, "data/a.csv", "id", "1")
    connector = connector_for(files(tmp_path, "csv"))
    before = connector.version()
    assert connector.version() == before
    put(tmp_path, "data/b.csv", "id", "2")
    assert connector.version() != before
    assert connector_for(files(tmp_path, "csv", sep=";")).version() != connector.version()


def test_the_version_of_a_delta_table_is_that_of_its_log(spark, tmp_path):
    path = str(tmp_path / "data")
    deltalake.write_deltalake(path, pa.table({"id": [1]}))
    connector = connector_for(files(tmp_path, "DELTA"))
    before = connector.version()
    assert connector.version() == before
    deltalake.write_deltalake(path, pa.table({"id": [2]}), mode="append")
    assert connector.version() != before
    assert rows(spark, files(tmp_path, "delta")) == [(1,), (2,)]
    (tmp_path / "data").rename(tmp_path / "old")
    deltalake.write_deltalake(path, pa.table({"id": [1]}))
    assert connector.version() not in (None, before)


def test_orc_is_read(spark, tmp_path):
    spark.range(3).write.orc(str(tmp_path / "data"))
    assert rows(spark, files(tmp_path, "orc")) == [(0,), (1,), (2,)]


def test_any_spark_data_source_is_read_by_its_name(spark, tmp_path):
    put(tmp_path, "data/a.txt", "one", "two")
    assert rows(spark, files(tmp_path, "text")) == [("one",), ("two",)]
    reading = Reading(spark)
    found = connector_for(files(tmp_path, "Text")).read_since(reading, "value", cursor("string", "p"))
    assert [row.value for row in found.collect()] == ["two"]


def test_a_kind_that_spark_does_not_know_is_an_error(spark, tmp_path):
    with pytest.raises(ArgumentError) as error:
        rows(spark, files(tmp_path, "PARKET"))
    assert error.value.code == "source.unknown_kind"
    assert str(error.value) == (
        "[source.unknown_kind] PARKET is no kind of source that Tidemill or Spark knows. Did you mean PARQUET?"
    )
