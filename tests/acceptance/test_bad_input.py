"""What is wrong is refused in clear words, and the target stays as it was."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from given import bag, frame, held, refused, step, table

import tidemill
from tidemill import MergeStrategy
from tidemill.declarations import Append, Merge, Replace
from tidemill.errors import ArgumentError, MergeError, SchemaError, SourceError, TableError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BIG, TEXT = pa.int64(), pa.string()
TYPES = {"id": BIG, "region": TEXT, "v": TEXT}
ROWS = [(1, "eu", "a"), (2, "us", "b")]


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table for all tests of this file: none of them may touch it."""
    path = tmp_path_factory.mktemp("bad") / "t"
    tidemill.merge(frame(TYPES, *ROWS), path, "id", spark=spark)
    return path


@pytest.fixture(scope="module", autouse=True)
def _untouched(target: Path) -> Any:
    yield
    assert held(target) == bag(*ROWS)


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return frame(TYPES, *given)


LONE_NULL = rows((None, "eu", "x"), (3, "eu", "y"))
NULLS = rows((None, "eu", "x"), (3, None, "x"), (None, None, "x"), (4, "eu", "x"))
TWINS = rows((7, "eu", "x"), (7, "eu", "y"), (8, "eu", "x"))
MANY_TWINS = rows(*[(n, "eu", v) for n in range(8) for v in "xy"])
REMEDY = "Keep one row per key with dedup_order_by, or make the source unique on ({}). {} is unchanged."


@pytest.mark.parametrize("form", ["upsert", "full_merge"])
@pytest.mark.parametrize(
    ("source", "keys", "problem"),
    [
        (LONE_NULL, "id", "1 row has no id; keys cannot be NULL."),
        (NULLS, ["id", "region"], "3 rows have no id or no region; keys cannot be NULL."),
    ],
    ids=["one key", "two keys"],
)
def test_null_keys_are_counted(
    spark: SparkSession, target: Path, source: pa.Table, keys: Any, problem: str, form: str
) -> None:
    error = refused(target, lambda: tidemill.merge(source, target, keys, form, spark=spark))
    remedy = f"Leave such rows out, or choose other keys. {target} is unchanged."
    assert (type(error), str(error)) == (MergeError, f"[merge.null_keys] {problem} {remedy}")


@pytest.mark.parametrize("form", ["upsert", "full_merge"])
@pytest.mark.parametrize(
    ("source", "keys", "shown"),
    [
        (TWINS, ("id",), "1 key of {} comes more than once in this change: 7."),
        (TWINS, ("region", "id"), "1 key of {} comes more than once in this change: ('eu', 7)."),
        (MANY_TWINS, ("id",), "8 keys of {} come more than once in this change: 0, 1, 2, 3, 4, …."),
    ],
    ids=["one", "composite", "more than can be shown"],
)
def test_different_rows_of_one_key_are_shown(
    spark: SparkSession, target: Path, source: pa.Table, keys: Any, shown: str, form: str
) -> None:
    error = refused(target, lambda: tidemill.merge(source, target, keys, form, spark=spark))
    text = f"[merge.duplicate_keys] {shown.format(target)} {REMEDY.format(', '.join(keys), target)}"
    assert (type(error), str(error)) == (MergeError, text)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (TEXT, "it's", '"it\'s"'),
        (pa.date32(), dt.date(2024, 1, 2), "2024-01-02"),
        (pa.decimal128(9, 2), Decimal(1), "1.00"),
    ],
    ids=["string", "date", "decimal"],
)
def test_duplicate_keys_are_shown_as_they_are_also_on_a_first_run(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, value: Any, shown: str
) -> None:
    path = tmp_path / "t"
    source = frame({"k": kind, "v": BIG}, (value, 1), (value, 2))
    error = refused(path, lambda: tidemill.merge(source, path, "k", spark=spark))
    assert error.problem == f"1 key of {path} comes more than once in this change: {shown}."


def test_rows_equal_in_every_column_count_once_and_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    source = rows((1, "eu", None), (1, "eu", None), (2, "us", "b"), (1, "eu", None))
    result = tidemill.merge(source, tmp_path / "t", "id", spark=spark)
    assert (result.inserted, result.total) == (2, 2)
    assert result.notices == ("2 of 4 rows skipped: one row per key is kept",)


WRONG_COLUMNS = {
    "a key that the source lacks": (
        rows((3, "eu", "c")).drop_columns("id"),
        {"on": "id"},
        "The key column 'id' is not a column of the source of {}. It has: region, v.",
    ),
    "a key that the target lacks": (
        frame({**TYPES, "extra": BIG}, (3, "eu", "c", 1)),
        {"on": ["id", "extra"], "schema_policy": "append_new_columns"},
        "The key column 'extra' is not a column of {}. It has: id, region, v.",
    ),
    "a dedup_order_by that is no column": (
        rows((3, "eu", "c")),
        {"on": "id", "strategy": "deduplicate", "dedup_order_by": "updated_at"},
        "The dedup_order_by column 'updated_at' is not a column of the source of {}. It has: id, region, v.",
    ),
    "an only_newer that is no column": (
        rows((3, "eu", "c")),
        {"on": "id", "only_newer": "updated_at"},
        "The only_newer column 'updated_at' is not a column of the source of {}. It has: id, region, v.",
    ),
    "a volatile that is no column": (
        rows((3, "eu", "c")),
        {"on": "id", "volatile": "loaded_at"},
        "The volatile column 'loaded_at' is not a column of {}. It has: id, region, v.",
    ),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_a_column_that_is_not_there_is_named_with_those_that_are(spark: SparkSession, target: Path, case: str) -> None:
    source, arguments, text = WRONG_COLUMNS[case]
    error = refused(target, lambda: tidemill.merge(source, target, spark=spark, **arguments))
    assert (type(error), str(error)) == (ArgumentError, f"[columns.missing] {text.format(target)}")
    assert isinstance(error, ValueError)


WRONG_TYPES = {
    "bigint into string": ({"v": BIG}, (1, "eu", 5), "v is string, not bigint"),
    "double into bigint": ({"id": pa.float64()}, (1.0, "eu", "a"), "id is bigint, not double"),
    "decimal into bigint": ({"id": pa.decimal128(10, 0)}, (Decimal(1), "eu", "a"), "id is bigint, not decimal(10,0)"),
    "two at once": (
        {"id": TEXT, "v": pa.bool_()},
        ("1", "eu", True),
        "id is bigint, not string; v is string, not boolean",
    ),
    "struct into string": ({"v": pa.struct([("a", BIG)])}, (1, "eu", {"a": 1}), "v is string, not struct<a:bigint>"),
}


@pytest.mark.parametrize("case", WRONG_TYPES)
def test_types_that_do_not_fit_are_named(spark: SparkSession, target: Path, case: str) -> None:
    types, row, told = WRONG_TYPES[case]
    error = refused(target, lambda: tidemill.merge(frame({**TYPES, **types}, row), target, "id", spark=spark))
    assert (type(error), str(error)) == (
        SchemaError,
        (
            f"[schema.incompatible_types] The rows do not fit the columns of {target}: {told}. "
            "Cast them in the source; only casts that lose nothing are made for you. The table is unchanged."
        ),
    )


def test_columns_that_cannot_be_compared_are_refused_from_the_first_run_on(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    source = spark.sql("SELECT array(map(1, 2)) AS k")
    error = refused(path, lambda: tidemill.merge(source, path, "k", spark=spark))
    assert (type(error), str(error)) == (
        ArgumentError,
        (
            "[merge.bad_key] k is a array<map<int,int>>, and keys with a map or a variant in them cannot be compared. "
            "Use columns of numbers, texts, dates or times as keys."
        ),
    )
    versions = spark.sql("SELECT 1 AS k, map(1, 2) AS m")
    error = refused(path, lambda: tidemill.merge(versions, path, "k", only_newer="M", spark=spark))
    assert (type(error), str(error)) == (
        ArgumentError,
        (
            "[merge.only_newer] m is a map<int,int>, and of two maps or variants none is newer. "
            "Give only_newer a column of numbers, texts, dates or times."
        ),
    )


def test_a_column_of_nothing_but_null_needs_a_type_when_the_table_has_none_for_it(
    spark: SparkSession, target: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    error = refused(
        path, lambda: tidemill.merge(frame({"id": BIG, "v": pa.null()}, (1, None)), path, "id", spark=spark)
    )
    assert str(error) == (
        f"[schema.no_type] Nothing tells the type of v in the source of {path}: every value is NULL. "
        "Cast it in the source."
    )
    fits = frame({"id": BIG, "region": TEXT, "v": pa.null()}, (2, "us", None))
    assert tidemill.merge(fits, target, "id", "insert", spark=spark).ignored == 1


@pytest.mark.parametrize("names", [("id", "Region", "REGION"), ("id", "v", "v")], ids=["by case", "the same"])
def test_columns_of_one_name_are_refused(spark: SparkSession, target: Path, names: tuple[str, ...]) -> None:
    source = spark.createDataFrame(rows((3, "eu", "c"))).toDF(*names)
    error = refused(target, lambda: tidemill.merge(source, target, "id", schema_policy="ignore", spark=spark))
    assert (type(error), str(error)) == (
        SchemaError,
        (
            f"[schema.ambiguous_columns] The source of {target} has two columns of one name: "
            f"{names[1]} and {names[2]}. Rename one of them; names are matched without case."
        ),
    )


@pytest.mark.parametrize("kind", ["a folder of other files", "a file"])
def test_a_target_that_is_no_table_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    if kind == "a file":
        path.write_text("hello")
    else:
        path.mkdir()
        (path / "part-0.csv").write_text("id\n1\n")
    error = refused(path, lambda: tidemill.merge(rows(*ROWS), path, "id", spark=spark))
    assert (type(error), str(error)) == (
        TableError,
        (
            f"[table.not_a_table] {path} is there, but it is not a Delta table. "
            "Give the path of a Delta table or of a folder of Parquet files, or a path where nothing is yet."
        ),
    )


def test_a_table_name_that_the_session_does_not_know_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ArgumentError) as caught:
        tidemill.merge(rows(*ROWS), "shop.nothing", "id", spark=spark)
    assert str(caught.value) == (
        "[table.unknown_name] The Spark session knows no table shop.nothing. "
        "Give the path of the table (./shop.nothing for a folder of that name), or a session that knows it."
    )


def test_a_source_path_where_nothing_is_is_refused(spark: SparkSession, target: Path, tmp_path: Path) -> None:
    error = refused(target, lambda: tidemill.merge(tmp_path / "no", target, "id", spark=spark))
    assert (type(error), str(error)) == (
        ArgumentError,
        f"[source.missing] There is nothing at {tmp_path / 'no'}. Give the path of a file, a folder or a Delta table.",
    )


def test_a_source_folder_without_files_or_of_several_kinds_is_refused(
    spark: SparkSession, target: Path, tmp_path: Path
) -> None:
    endings = ".parquet, .csv, .tsv, .json, .jsonl, .ndjson, .orc"
    kinds = f"Give a Delta table, or files of one kind that end in {endings}; a pattern chooses: *.csv."
    error = refused(target, lambda: tidemill.merge(tmp_path, target, "id", spark=spark))
    assert str(error) == f"[source.unknown_format] {tmp_path} holds no files. {kinds}"
    (tmp_path / "a.csv").write_text("id")
    (tmp_path / "b.xlsx").write_text("id")
    error = refused(target, lambda: tidemill.merge(tmp_path, target, "id", spark=spark))
    assert (
        str(error) == f"[source.unknown_format] {tmp_path} holds files of csv kind and b.xlsx, of unknown kind. {kinds}"
    )


CORRUPT = {
    "parquet.parquet": "PAR1 and then nothing that Parquet knows PAR1",
    "too many fields.csv": "id,region,v\n3,eu,c\n4,eu,d,and more,and more\n",
    "no number.csv": "id,region,v\n3,eu,c\nfour,eu,d\n",
    "no number.json": '{"id": 3, "region": "eu", "v": "c"}\n{"id": "four", "region": "eu", "v": "d"}\n',
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_source_file_is_refused(spark: SparkSession, target: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name.replace(" ", "_")
    path.write_text(CORRUPT[name])
    error = refused(target, lambda: tidemill.merge(path, target, "id", spark=spark))
    assert (type(error), error.code) == (SourceError, "source.unreadable")
    assert error.problem.startswith(f"{path} could not be read: ")
    assert error.remedy == f"Fix the source and run again. {target} is unchanged."
    assert "\n" not in str(error)


def test_json_that_is_not_in_lines_is_refused(spark: SparkSession, target: Path, tmp_path: Path) -> None:
    path = tmp_path / "json.json"
    path.write_text('{"id": 3, "region": "eu", "v": "c"}\n{"id": 4, "region": \n')
    error = refused(target, lambda: tidemill.merge(path, target, "id", spark=spark))
    assert isinstance(error, SourceError)
    assert str(error) == (
        f"[source.not_json_lines] {path} has lines that are no JSON object. "
        "Write each object in one line, as jq -c does; a file may also be one object or one array of objects."
    )


WRONG_ARGUMENTS = {
    "an unknown strategy": (
        {"on": "id", "strategy": "upsertt"},
        (
            "[merge.unknown_strategy] 'upsertt' is no merge strategy. "
            "Use one of upsert, insert, update, full_merge, deduplicate."
        ),
    ),
    "no strategy": (
        {"on": "id", "strategy": None},
        (
            "[merge.unknown_strategy] None is no merge strategy. "
            "Use one of upsert, insert, update, full_merge, deduplicate."
        ),
    ),
    "no keys": (
        {"on": []},
        '[merge.no_keys] A merge needs key columns, and none are given. Name them with on="order_id" or --on.',
    ),
    "a repeated key": (
        {"on": ["id", "region", "ID"]},
        "[merge.repeated_key] A key column is named twice: id, region, ID. Name each key column once.",
    ),
    "a share above one": (
        {"on": "id", "strategy": "full_merge", "max_shrink": 10},
        "[table.bad_max_shrink] max_shrink is a share from 0 to 1, not 10. Write 0.1 for a tenth of the rows.",
    ),
    "a share below nothing": (
        {"on": "id", "strategy": "full_merge", "max_shrink": -0.1},
        "[table.bad_max_shrink] max_shrink is a share from 0 to 1, not -0.1. Write 0.1 for a tenth of the rows.",
    ),
    "a share for what deletes nothing": (
        {"on": "id", "max_shrink": 0.1},
        "[merge.max_shrink] max_shrink guards full_merge; upsert deletes nothing. Leave it out, or use full_merge.",
    ),
    "an unknown schema policy": (
        {"on": "id", "schema_policy": "evolve"},
        (
            "[schema.unknown_policy] 'evolve' is no schema policy. "
            "Use one of fail, ignore, append_new_columns, sync_all_columns."
        ),
    ),
    "a key that is no name": (
        {"on": [1]},
        '[columns.no_names] [1] names no columns. Give a name, or a list: ["order_id", "region"].',
    ),
    "keys that are no list": (
        {"on": 5},
        '[columns.no_names] 5 names no columns. Give a name, or a list: ["order_id", "region"].',
    ),
    "several columns for only_newer": (
        {"on": "id", "only_newer": ["v"]},
        "[merge.only_newer] only_newer names one column, and ['v'] is no name. Give it as a text.",
    ),
    "an empty name for only_newer": (
        {"on": "id", "only_newer": ""},
        "[merge.only_newer] only_newer names one column, and '' is no name. Give it as a text.",
    ),
    "an empty format": (
        {"on": "id", "format": ""},
        "[table.unknown_format] '' is not a table format that can be merged into. Use one of delta, parquet.",
    ),
    "a share that is yes or no": (
        {"on": "id", "strategy": "full_merge", "max_shrink": True},
        "[table.bad_max_shrink] max_shrink is a share from 0 to 1, not True. Write 0.1 for a tenth of the rows.",
    ),
    "a share that is no number": (
        {"on": "id", "strategy": "full_merge", "max_shrink": "0.1"},
        "[table.bad_max_shrink] max_shrink is a share from 0 to 1, not 0.1. Write 0.1 for a tenth of the rows.",
    ),
    "no schema policy": (
        {"on": "id", "schema_policy": None},
        (
            "[schema.unknown_policy] None is no schema policy. "
            "Use one of fail, ignore, append_new_columns, sync_all_columns."
        ),
    ),
    "an unknown format": (
        {"on": "id", "format": "hudi"},
        "[table.unknown_format] 'hudi' is not a table format that can be merged into. Use one of delta, parquet.",
    ),
}


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_an_error_and_a_value_error(spark: SparkSession, target: Path, case: str) -> None:
    arguments, text = WRONG_ARGUMENTS[case]
    error = refused(target, lambda: tidemill.merge(rows(*ROWS), target, spark=spark, **arguments))
    assert isinstance(error, ValueError)
    assert str(error) == text


def test_a_source_of_no_known_kind_is_refused(spark: SparkSession, target: Path) -> None:
    error = refused(target, lambda: tidemill.merge({"id": 1}, target, "id", spark=spark))
    assert isinstance(error, ValueError)
    assert str(error) == (
        "[source.unknown_kind] A value of the type dict cannot be merged. "
        "Give a Spark, pandas or Polars DataFrame, a DuckDB relation, a pyarrow Table, a list of dicts, or a path."
    )


NO_PLACES = {
    "no target": lambda: tidemill.merge(rows(*ROWS), None, "id", format="delta"),
    "an empty target": lambda: tidemill.merge(rows(*ROWS), "", "id"),
    "a target with a zero in its name": lambda: tidemill.merge(rows(*ROWS), "a\0b", "id"),
    "an empty source": lambda: tidemill.merge(" ", "t", "id"),
    "an empty table to read": lambda: tidemill.read(""),
    "the history of an empty path": lambda: tidemill.history(""),
}


@pytest.mark.parametrize("case", NO_PLACES)
def test_an_empty_path_is_not_the_current_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Such as a variable leaves that is not set."""
    del spark  # where none is asked for, it is the one of this process
    monkeypatch.chdir(tmp_path)
    error = refused(tmp_path, NO_PLACES[case])
    assert isinstance(error, ValueError)
    assert (error.code, error.remedy) == ("table.no_path", "Give the path of a table, or of the files that are read.")


def test_a_version_or_a_moment_that_is_none_is_refused(target: Path) -> None:
    error = refused(target, lambda: tidemill.restore(target, to="3"))
    assert str(error) == "[restore.bad_version] '3' is no version. Versions are whole numbers from 0 on."
    assert refused(target, lambda: tidemill.restore(target, at=3)).problem == "3 is no moment."


def test_a_session_or_a_number_of_commits_that_is_none_is_refused(target: Path) -> None:
    error = refused(target, lambda: tidemill.merge(pa.table({"id": [1]}), target, "id", spark="local"))
    assert (error.code, error.problem) == ("engine.no_session", "spark is a str, and no SparkSession.")
    error = refused(target, lambda: tidemill.history(target, limit="3"))
    assert str(error) == "[history.bad_limit] '3' is no number of commits. Give one, or leave it out."


def test_full_merge_takes_no_window(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        table(tmp_path, Merge(("id",), MergeStrategy.FULL_MERGE), time="day")
    assert str(caught.value) == (
        "[table.full_merge_window] orders: full_merge reads its whole source and takes no window. "
        "Drop the time column, or use upsert, which keeps rows that the window does not read."
    )


def test_a_bad_max_shrink_of_replace_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^\[table.bad_max_shrink\] max_shrink is a share from 0 to 1, not 2\. "):
        Replace(max_shrink=2)


def test_a_time_column_that_is_no_column_is_refused(spark: SparkSession, target: Path) -> None:
    error = refused(target, lambda: step(spark, table(target, Append(), time="at"), rows(*ROWS)))
    assert str(error) == (
        "[columns.missing] The time column 'at' is not a column of the source of orders. It has: id, region, v."
    )


def test_a_time_column_that_the_table_lacks_is_refused(spark: SparkSession, target: Path) -> None:
    wide = frame({**TYPES, "at": BIG}, (3, "eu", "c", 1))
    error = refused(target, lambda: step(spark, table(target, Append(), time="at", policy="ignore"), wide))
    assert str(error) == "[columns.missing] The time column 'at' is not a column of orders. It has: id, region, v."


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [(pa.float64(), 1.0, "double"), (pa.bool_(), True, "boolean"), (pa.list_(BIG), [1], "array<bigint>")],
    ids=["double", "boolean", "array"],
)
def test_a_time_column_that_cannot_order_rows_is_refused(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, value: Any, name: str
) -> None:
    path = tmp_path / "t"
    error = refused(path, lambda: step(spark, table(path, Append(), time="at"), frame({"at": kind}, (value,))))
    assert isinstance(error, ValueError)
    assert str(error) == (
        f"[window.bad_time_column] orders: a {name} column cannot order rows in time, and at is one. "
        "Use a date, a timestamp, a whole number, a decimal or a string column."
    )


def test_a_start_that_is_no_time_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    source = frame({"at": pa.date32()}, (dt.date(2024, 1, 1),))
    error = refused(path, lambda: step(spark, table(path, Append(), time="at", start="31.1.2024"), source))
    assert isinstance(error, ValueError)
    assert (
        str(error) == "[window.bad_value] The start of at is '31.1.2024', which is no date. Write a date as 2024-01-31."
    )
