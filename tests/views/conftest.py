"""A lake of others' Delta tables, a project of views over them, and the views' own queries as the oracle."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from delta_rows import delta_rows
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import tidemill
from tidemill.formats.delta.log import DeltaLog
from tidemill.planning import costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.api.results import RunStep
    from tidemill.model.record import Snapshot

Bag = Counter[tuple[Any, ...]]

INCREMENTAL = '{"refresh": "incremental"}'
MARKS = {"delta.enableDeletionVectors": "true"}
NO_MARKS = {"delta.enableDeletionVectors": "false"}
FEED = {"delta.enableChangeDataFeed": "true"}


@dataclass
class Lake:
    """`queries` are those of the views of one pipeline, by name; `options` what stands behind OPTIONS, by name.

    `tables_of_queries` are those that are plain tables instead, `given` the literals of @names.
    """

    spark: SparkSession
    folder: Path
    tables: dict[str, str] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    tables_of_queries: set[str] = field(default_factory=set)
    given: dict[str, str] = field(default_factory=dict)
    before: dict[str, Bag] = field(default_factory=dict)

    # what others do

    def table(self, name: str, columns: str, *rows: tuple[Any, ...], **properties: str) -> None:
        """A new table of others, made by delta-rs; `columns` as in Spark's DDL."""
        self.tables[name] = columns
        configuration = {key.replace("_", "."): value for key, value in properties.items()}
        write_deltalake(self.path(name), self.arrow(name, rows), configuration=configuration or None)

    def spark_table(
        self, name: str, columns: str, *rows: tuple[Any, ...], properties: Mapping[str, str] | None = None
    ) -> None:
        """The same by Spark, for properties that delta-rs does not know."""
        self.tables[name] = columns
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or {}).items())
        known = f" TBLPROPERTIES ({listed})" if listed else ""
        self.sql(f"CREATE TABLE {{{name}}} ({columns}) USING delta{known}")
        if rows:
            self.append(name, *rows)

    def append(self, name: str, *rows: tuple[Any, ...], mode: str = "append") -> None:
        write_deltalake(self.path(name), self.arrow(name, rows), mode=mode)

    def overwrite(self, name: str, *rows: tuple[Any, ...]) -> None:
        self.append(name, *rows, mode="overwrite")

    def sql(self, statement: str) -> None:
        """A statement of Spark; `{orders}` is the table of that name, others' or ours."""
        places = {each: f"delta.`{self.path(each)}`" for each in (*self.tables, *self.queries)}
        self.spark.sql(statement.format(**places)).collect()

    def delta(self, name: str) -> DeltaTable:
        return DeltaTable(self.path(name))

    def arrow(self, name: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        schema = to_arrow_schema(StructType.fromDDL(self.tables[name]))
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        return pa.table([pa.array(each, kind.type) for each, kind in zip(columns, schema, strict=True)], schema)

    def path(self, name: str) -> str:
        return str(self.folder / "lake" / name if name in self.tables else self.folder / "warehouse" / "main" / name)

    def version(self, name: str) -> int:
        return self.snapshot(name).version

    def snapshot(self, name: str) -> Snapshot:
        found = DeltaLog(self.path(name)).snapshot()
        assert found is not None
        return found

    # what the user does

    def view(self, name: str, query: str, options: str = INCREMENTAL) -> None:
        """A statement of the pipeline; the one of that name before, if there is one, goes."""
        self.queries[name], self.options[name] = query, options
        self.tables_of_queries.discard(name)

    def table_of_query(self, name: str, query: str) -> None:
        """The same, and it is no view."""
        self.view(name, query, "")
        self.tables_of_queries.add(name)

    def model(self, name: str, query: str) -> None:
        """A view of the project that is no table."""
        models = self.folder / "models" / "main"
        models.mkdir(parents=True, exist_ok=True)
        (models / f"{name}.sql").write_text(f'-- metadata: {{"materialization": "view"}}\n{query}\n')
        self.models[name] = query

    def project(self, flags: str = "") -> tidemill.Project:
        sources = "".join(f'[sources."{each}"]\ntype = "delta"\npath = "lake/{each}"\n' for each in self.tables)
        (self.folder / "tidemill.toml").write_text(f'name = "p"\n[warehouse]\npath = "warehouse"\n{sources}{flags}')
        pipelines = self.folder / "pipelines"
        pipelines.mkdir(exist_ok=True)
        (pipelines / "p.sql").write_text("".join(map(self._statement, self.queries)))
        return tidemill.Project.load(str(self.folder))

    def run(self, flags: str = "", **how: Any) -> dict[str, RunStep]:
        """Runs the project; what the views held before is kept for `check`."""
        self.before = {name: self.held(name) for name in self.queries}
        return {step.table: step for step in self.project(flags).run(spark=self.spark, **how).steps}

    def line(self, name: str) -> int:
        """Where the statement of a view begins; its query begins in the line behind."""
        before = "".join(map(self._statement, list(self.queries)[: list(self.queries).index(name)]))
        return before.count("\n") + 1

    def _statement(self, name: str) -> str:
        given = f" OPTIONS {self.options[name]}" if self.options[name] else ""
        kind = "TABLE" if name in self.tables_of_queries else "MATERIALIZED VIEW"
        return f"CREATE {kind} {name}{given} AS\n{self.queries[name]};\n"

    # what is right

    def held(self, name: str, version: int | None = None) -> Bag:
        """The rows of a view now, as delta-rs reads them, or at an older version."""
        if DeltaLog(self.path(name)).snapshot() is None:
            return Counter()
        if version is None:
            return bag(delta_rows(self.path(name)))
        return bag(map(tuple, self._at(self.spark, name, version).collect()))

    def right(self, name: str) -> Bag:
        """The rows that Spark gives for the query over its inputs at the versions that the record names.

        A query whose rows depend on more than its inputs has none in its record.
        """
        recorded = self.recorded(name)
        return self._answer(name, recorded) if recorded else self.right_now(name)

    def right_now(self, name: str) -> Bag:
        """The same over all tables of others, as they are."""
        return self._answer(name, {table: self.version(table) for table in self.tables})

    def _at(self, session: SparkSession, table: str, version: int) -> DataFrame:
        return session.read.format("delta").option("versionAsOf", version).load(self.path(table))

    def _answer(self, name: str, versions: Mapping[str, int]) -> Bag:
        session, query = self.spark.newSession(), self.queries[name]
        for table, version in versions.items():
            quoted = f"`{table}`" if "." in table else table
            query = query.replace(table, quoted)
            self._at(session, table, version).createOrReplaceTempView(quoted)
        for model, text in self.models.items():
            if model in query:
                session.sql(text).createOrReplaceTempView(model)
        for parameter, literal in self.given.items():
            query = query.replace(f"@{parameter}", literal)
        return bag(map(tuple, session.sql(query).collect()))

    def recorded(self, name: str) -> dict[str, int]:
        """The versions of its inputs that the record of a view names."""
        record = self.snapshot(name).record
        assert record is not None
        versions = [pair for each in record.input_versions.values() for pair in json.loads(each).items()]
        return {
            table.removeprefix("main."): int(content.rpartition("@")[2].partition(".")[0])
            for table, content in versions
            if "@" in content
        }

    def check(self, step: RunStep, mode: str | None = "incremental") -> None:
        """One step of the last run: the rows are right, the counts exact, and it was done in this way."""
        name = step.table
        assert step.error is None, f"{name}: {step.error}"
        if mode is not None:
            assert step.refresh is not None, step
            assert step.refresh["mode"] == mode, f"{name}: {step.refresh}"
        held, right = self.held(name), self.right(name)
        assert held == right, f"{name}: {held - right} too much, {right - held} missing; {step}"
        came, went = held - self.before[name], self.before[name] - held
        assert (step.inserted + step.updated, step.deleted + step.updated) == (came.total(), went.total()), step
        assert step.total == held.total(), step

    def check_all(self, steps: dict[str, RunStep], mode: str | None = "incremental") -> None:
        """All steps; those that have nothing to do may say so."""
        for step in steps.values():
            self.check(step, None if step.status == "up to date" else mode)

    def check_again(self) -> None:
        """The same again writes nothing."""
        versions = {name: self.version(name) for name in self.queries}
        statuses = {name: step.status for name, step in self.run().items() if name in self.queries}
        assert statuses == dict.fromkeys(self.queries, "up to date")
        assert versions == {name: self.version(name) for name in self.queries}


def bag(rows: Iterable[tuple[Any, ...]]) -> Bag:
    """Rows that can be counted: NaN is NaN, and -0.0 is 0.0."""
    return Counter(tuple(map(_countable, row)) for row in rows)


def _countable(value: object) -> object:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case list():
            return tuple(map(_countable, value))
        case dict():
            return frozenset((_countable(key), _countable(each)) for key, each in value.items())
        case _:
            return value


@pytest.fixture
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What chooses by itself reads changes, however small the tables of a test are and however much changed."""
    monkeypatch.setattr(costs, "_FEW_BYTES", 0)
    monkeypatch.setattr(costs, "_MOST_CHANGED", 1000)
    monkeypatch.setattr(costs, "_MOST_KEYS", 1000)
    monkeypatch.setattr(costs, "_COMMITS", 0)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)
