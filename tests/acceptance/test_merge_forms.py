"""Each form of a merge does what it says, with exact counts, and a second run commits nothing."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from given import commits_nothing, frame, held, refused, version

import tidemill
from tidemill import MergeStrategy
from tidemill.api import merge_table
from tidemill.api.merging import run_merge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

BIG, TEXT = pa.int64(), pa.string()


@dataclass(frozen=True)
class Situation:
    """A table as it is, a change to it, and the keys of both."""

    name: str
    keys: tuple[str, ...]
    target: pa.Table
    source: pa.Table


@dataclass
class Outcome:
    """What the words of a form say should come out, computed by plain Python."""

    rows: dict[tuple[Any, ...], tuple[Any, ...]]
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("inserted", "updated", "deleted", "unchanged", "ignored"), 0)
    )

    def count(self, name: str) -> None:
        self.counts[name] += 1


def expected(form: MergeStrategy, situation: Situation) -> Outcome:
    names = [name.lower() for name in situation.target.column_names]
    keys = [key.lower() for key in situation.keys]
    outcome = Outcome(_by_key(situation.target, names, keys))
    change = _by_key(situation.source, names, keys)
    for key, row in change.items():
        _enter(outcome, form, key, row)
    if form is MergeStrategy.FULL_MERGE:
        for key in outcome.rows.keys() - change.keys():
            del outcome.rows[key]
            outcome.count("deleted")
    return outcome


def _by_key(rows: pa.Table, names: list[str], keys: list[str]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    plain = [{name.lower(): value for name, value in row.items()} for row in rows.to_pylist()]
    return {tuple(row[k] for k in keys): tuple(row[n] for n in names) for row in plain}


def _enter(outcome: Outcome, form: MergeStrategy, key: tuple[Any, ...], row: tuple[Any, ...]) -> None:
    known = outcome.rows.get(key)
    if known is None and form is MergeStrategy.UPDATE:
        outcome.count("ignored")
    elif known is None:
        outcome.count("inserted")
        outcome.rows[key] = row
    elif form is MergeStrategy.INSERT:
        outcome.count("ignored")
    elif known == row:
        outcome.count("unchanged")
    else:
        outcome.count("updated")
        outcome.rows[key] = row


def _keyed(name: str, kind: pa.DataType, kept: Any, null: Any, changed: Any, gone: Any, new: Any) -> Situation:
    """One key column; a row for each thing that can happen to a key, NULLs that stay, come and go among them."""
    types = {"k": kind, "v": TEXT, "n": BIG}
    target = frame(types, (kept, "same", 1), (null, None, None), (changed, "old", 3), (gone, None, 4))
    source = frame(types, (new, None, 5), (kept, "same", 1), (null, None, None), (changed, None, 3))
    return Situation(name, ("k",), target, source)


def _everything() -> Situation:
    """Composite keys of four types under odd names; columns in another order and case; an int for a bigint."""
    a, b, one, two = dt.date(2024, 1, 1), dt.date(1969, 7, 20), Decimal("-1.50"), Decimal("9999999999.99")
    names = ("Order Id", "a.b", "DAY", "tick`s", "v", "n")
    kinds = (BIG, TEXT, pa.date32(), pa.decimal128(12, 2), TEXT, BIG)
    target = frame(
        dict(zip(names, kinds, strict=True)),
        (1, "it's", a, one, "same", 1),
        (1, "it's", b, one, None, None),
        (2, "${env:HOME}", a, two, "old", 3),
        (2**40, "", a, one, None, 4),
    )
    source = frame(
        {"N": BIG, "v": TEXT, "order id": pa.int32(), "tick`s": kinds[3], "day": kinds[2], "A.B": TEXT},
        (5, None, 1, two, a, "it's"),
        (1, "same", 1, one, a, "it's"),
        (None, None, 1, one, b, "it's"),
        (3, None, 2, two, a, "${env:HOME}"),
    )
    return Situation("everything at once", names[:4], target, source)


SITUATIONS = [
    _keyed("string keys", TEXT, "it's", "back\\slash", "${env:HOME}", "", "ünï\n"),
    _keyed(
        "date keys", pa.date32(), *[dt.date(2024, 1, day) for day in (1, 5, 9)], dt.date(1, 1, 1), dt.date(1969, 7, 20)
    ),
    _keyed("decimal keys", pa.decimal128(12, 2), *map(Decimal, ("-1.50", "0.00", "1.05", "7.00", "9999999999.99"))),
    _keyed("the lowest and highest bigint keys", BIG, -(2**63), 0, 2**63 - 1, 5, 6),
]
SIMPLE = _keyed("simple", BIG, 1, 2, 3, 4, 5)
EMPTY = SIMPLE.source.slice(0, 0)
EDGES = [
    Situation("an empty change", SIMPLE.keys, SIMPLE.target, EMPTY),
    Situation("an empty target", SIMPLE.keys, EMPTY, SIMPLE.source),
]


@pytest.fixture(scope="module")
def target_of(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Situation, Path], Path]:
    """Makes each situation's target once; a Delta table is a folder that can be copied."""
    made: dict[str, Path] = {}

    def copy(situation: Situation, to: Path) -> Path:
        if situation.name not in made:
            made[situation.name] = tmp_path_factory.mktemp("target") / "t"
            tidemill.merge(situation.target, made[situation.name], situation.keys, spark=spark)
        shutil.copytree(made[situation.name], to)
        return to

    return copy


FORMS = [(situation, form) for situation in [_everything(), *EDGES] for form in MergeStrategy]


@pytest.mark.parametrize(
    ("situation", "form"),
    [*FORMS, *((situation, MergeStrategy.UPSERT) for situation in SITUATIONS)],
    ids=lambda given: given.name if isinstance(given, Situation) else str(given),
)
def test_a_form_gives_the_rows_and_counts_of_the_oracle_and_again_commits_nothing(
    spark: SparkSession, tmp_path: Path, target_of: Callable[..., Path], situation: Situation, form: MergeStrategy
) -> None:
    path = target_of(situation, tmp_path / "t")
    result = tidemill.merge(situation.source, path, situation.keys, form, spark=spark)
    outcome = expected(form, situation)
    assert {name: getattr(result, name) for name in outcome.counts} == outcome.counts
    assert set(held(path)) == set(outcome.rows.values())
    assert result.total == len(outcome.rows)
    _again_commits_nothing(spark, path, situation, form, result.version)


@pytest.mark.parametrize("form", MergeStrategy, ids=str)
def test_a_dry_run_counts_what_the_merge_would_and_commits_nothing(
    spark: SparkSession, tmp_path: Path, target_of: Callable[..., Path], form: MergeStrategy
) -> None:
    path, outcome = target_of(SIMPLE, tmp_path / "t"), expected(form, SIMPLE)
    with commits_nothing(path):
        would = run_merge(SIMPLE.source, merge_table(path, "k", form), spark, dry_run=True)
    assert {name: getattr(would, name) for name in outcome.counts} == outcome.counts
    assert (would.total, would.notices) == (len(outcome.rows), ("would be version 1",))


def _again_commits_nothing(
    spark: SparkSession, path: Path, situation: Situation, form: MergeStrategy, after: int
) -> None:
    with commits_nothing(path):
        again = tidemill.merge(situation.source, path, situation.keys, form, spark=spark)
    assert (again.inserted, again.updated, again.deleted, again.version) == (0, 0, 0, after)
    assert again.unchanged + again.ignored == situation.source.num_rows


@pytest.mark.parametrize("form", [form for form in MergeStrategy if form is not MergeStrategy.UPDATE])
@pytest.mark.parametrize("rows", [SIMPLE.source, EMPTY], ids=["some rows", "no rows"])
def test_a_first_run_makes_the_table(spark: SparkSession, tmp_path: Path, form: MergeStrategy, rows: pa.Table) -> None:
    result = tidemill.merge(rows, tmp_path / "t", "k", form, spark=spark)
    assert (result.created, result.version, result.inserted) == (True, 0, rows.num_rows)
    assert (result.updated, result.deleted, result.unchanged, result.ignored) == (0, 0, 0, 0)
    assert set(held(tmp_path / "t")) == set(map(tuple, (row.values() for row in rows.to_pylist())))


def test_update_of_a_table_that_is_not_there_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    error = refused(path, lambda: tidemill.merge(SIMPLE.source, path, "k", "update", spark=spark))
    assert str(error) == (
        f"[table.missing] {path} is not there, and update changes only rows that are. "
        "Use upsert to make it, or give the path of a table that is there."
    )
    assert not path.exists()


def test_a_full_merge_of_nothing_says_that_the_table_is_empty_now(
    spark: SparkSession, tmp_path: Path, target_of: Callable[..., Path]
) -> None:
    path = target_of(SIMPLE, tmp_path / "t")
    result = tidemill.merge(EMPTY, path, "k", "full_merge", spark=spark)
    assert (result.deleted, result.total) == (4, 0)
    assert result.notices == ("the source is empty, and so is the table now",)


@pytest.mark.parametrize(("share", "allowed"), [(0.25, True), (0.2, False), (0.0, False)])
def test_max_shrink_bounds_what_a_full_merge_deletes(
    spark: SparkSession, tmp_path: Path, target_of: Callable[..., Path], share: float, allowed: bool
) -> None:
    path = target_of(SIMPLE, tmp_path / "t")

    def run() -> tidemill.MergeResult:
        return tidemill.merge(SIMPLE.source, path, "k", "full_merge", max_shrink=share, spark=spark)

    if allowed:
        assert run().deleted == 1
        return
    assert str(refused(path, run)) == (
        f"[table.max_shrink] {path} would lose 1 of its 4 rows, more than max_shrink = {share:g} allows. "
        f"Look at the source; if it is right, raise max_shrink for this run. {path} is unchanged."
    )


def _as_spark(spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    del folder
    return spark.createDataFrame(rows)


def _as_pandas(spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    del spark, folder
    return rows.to_pandas(integer_object_nulls=True)


def _as_parquet(spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    del spark
    folder.mkdir()
    pa.parquet.write_table(rows.slice(0, 2), folder / "part-0.parquet")
    pa.parquet.write_table(rows.slice(2), folder / "part-1.parquet")
    return folder


def _as_csv(spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    del spark
    pa.csv.write_csv(rows, folder.with_suffix(".csv"))
    return str(folder.with_suffix(".csv"))


def _as_json(spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    del spark
    path = folder.with_suffix(".jsonl")
    path.write_text("\n".join(json.dumps(row) for row in rows.to_pylist()))
    return path


def _as_delta(spark: SparkSession, rows: pa.Table, folder: Path) -> Any:
    spark.createDataFrame(rows).write.format("delta").save(str(folder))
    return folder


@pytest.mark.parametrize(
    "kind", [_as_spark, _as_pandas, _as_parquet, _as_csv, _as_json, _as_delta], ids=lambda f: f.__name__[4:]
)
def test_a_source_of_any_kind_gives_the_same(
    spark: SparkSession, tmp_path: Path, target_of: Callable[..., Path], kind: Callable[..., Any]
) -> None:
    path = target_of(SIMPLE, tmp_path / "t")
    outcome = expected(MergeStrategy.UPSERT, SIMPLE)
    source = kind(spark, SIMPLE.source, tmp_path / "source")
    result = tidemill.merge(source, path, "k", spark=spark)
    assert {name: getattr(result, name) for name in outcome.counts} == outcome.counts
    assert set(held(path)) == set(outcome.rows.values())
    with commits_nothing(path):
        tidemill.merge(source, path, "k", spark=spark)


@pytest.mark.parametrize("kind", [_as_spark, _as_parquet], ids=lambda f: f.__name__[4:])
def test_a_small_change_is_one_file_of_the_table_however_many_it_came_in(
    spark: SparkSession, tmp_path: Path, kind: Callable[..., Any]
) -> None:
    source = kind(spark, SIMPLE.source, tmp_path / "source")
    tidemill.merge(source if kind is _as_parquet else source.repartition(3), tmp_path / "t", "k", spark=spark)
    assert len(deltalake.DeltaTable(str(tmp_path / "t")).file_uris()) == 1


def test_a_target_that_a_session_knows_by_name_is_merged_into(
    spark: SparkSession, tmp_path: Path, target_of: Callable[..., Path]
) -> None:
    path = target_of(SIMPLE, tmp_path / "t")
    spark.sql("CREATE SCHEMA IF NOT EXISTS shop")
    spark.sql(f"CREATE TABLE shop.orders USING delta LOCATION '{path}'")
    try:
        result = tidemill.merge(SIMPLE.source, "shop.orders", "k", spark=spark)
        spark.sql("CREATE VIEW shop.seen AS SELECT 1 AS k")
        with pytest.raises(ValueError, match=r"^\[table.is_view\] shop.seen is a view of the Spark session. Give the "):
            tidemill.read("shop.seen", spark=spark)
    finally:
        spark.sql("DROP SCHEMA shop CASCADE")
    assert (result.inserted, result.updated, version(path)) == (1, 1, 1)
