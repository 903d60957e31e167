"""Runs checks on rows: those that are about to enter a table, or all that it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidemill.changes.compare import comparable, held_twice
from tidemill.changes.match import FEW_KEYS, within
from tidemill.changes.profile import Ranged, kind_of, range_columns, range_of
from tidemill.errors import ArgumentError
from tidemill.formats.base import COMING, HELD
from tidemill.model import of, quote, quoted_text, spelled
from tidemill.model.check import AcceptedValues, Checked, Holds, NotNull, Relationships, RowCount, Unique
from tidemill.model.project import as_text
from tidemill.spark.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from tidemill.formats.base import KeyRange
    from tidemill.model.check import Accepted, Check, Place

    Writing = Callable[[t.StructType, Sequence[str | None]], str]

SHOWN = 5
_LONGEST = 60
_ORDER = "__tidemill_order"


def samples(rows: DataFrame, columns: Sequence[str], write: Writing) -> tuple[tuple[str, ...], bool]:
    """The first few of what these columns hold, each once, and whether there are more."""
    schema = t.StructType([rows.schema[column] for column in columns])
    texts = [F.col(quote(field.name)).cast("string").alias(f"t{n}") for n, field in enumerate(schema.fields)]
    order = F.min(F.struct(*[_ordered(field) for field in schema.fields])).alias(_ORDER)
    found = rows.groupBy(*texts).agg(order).orderBy(_ORDER).limit(SHOWN + 1).collect()
    written = tuple(write(schema, [row[f"t{n}"] for n in range(len(columns))]) for row in found)
    return written[:SHOWN], len(written) > SHOWN


def as_value(schema: t.StructType, texts: Sequence[str | None]) -> str:
    """17, 'eu', or several as (17, 'eu')."""
    found = [_value(text, field) for text, field in zip(texts, schema.fields, strict=True)]
    return found[0] if len(found) == 1 else f"({', '.join(found)})"


def as_row(schema: t.StructType, texts: Sequence[str | None]) -> str:
    """id=17 region=eu"""
    return " ".join(f"{field.name}={_short(text)}" for text, field in zip(texts, schema.fields, strict=True))


def _ordered(field: t.StructField) -> Column:
    column = F.col(quote(field.name))
    return column if kind_of(field.dataType) else column.cast("string")


def _value(text: str | None, field: t.StructField) -> str:
    return repr(_short(text)) if text is not None and isinstance(field.dataType, t.StringType) else _short(text)


def _short(text: str | None) -> str:
    if text is None:
        return "NULL"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


RowCheck = NotNull | AcceptedValues | Holds

_TEXTS = ("string", "varchar", "char")
_EXACT_NUMBERS = ("tinyint", "smallint", "int", "bigint", "decimal")


def violation(check: RowCheck, kinds: Mapping[str, str]) -> str:
    """True for the rows that break the check, and for no others. `kinds` has the types of the columns."""
    match check:
        case NotNull(columns):
            return " OR ".join(f"{quote(column)} IS NULL" for column in columns)
        case AcceptedValues(column, values):
            accepted = ", ".join(_literal(value, kinds[column]) for value in values)
            name = quote(column)
            return f"{name} IS NOT NULL AND NOT coalesce({name} IN ({accepted}), false)"
        case Holds(condition):
            return f"NOT coalesce(({condition}\n), true)"  # a comment at its end must not swallow the rest


def _literal(value: Accepted, kind: str) -> str:
    """The value as the column would hold it: NULL, which equals nothing, where the column cannot."""
    text = quoted_text(as_text(value))
    if kind.startswith(_TEXTS):
        return text
    if _is_number(value) and kind.startswith(_EXACT_NUMBERS):
        return repr(value)  # a cast to the type of the column would round it
    return f"try_cast({text} AS {kind})"


def _is_number(value: Accepted) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_FEW_COLUMNS = 5
_VALUE = "__tidemill_value"


@dataclass(frozen=True, slots=True)
class _Look:
    """What one pass over the rows tells."""

    rows: int = 0
    broken: Mapping[Check, int] = field(default_factory=dict)
    ranges: Mapping[str, KeyRange] = field(default_factory=dict)


@dataclass(frozen=True)
class Checking:
    """The `rows` that are checked, and those of the table `beside` which they stand.

    One job counts the rows that break row-wise checks, and finds the ranges by which the others prune what they read;
    `unique` and `relationships` take a job each, and so do the samples of a check that does not hold. `parent` gives
    the rows of a table by its name, `unique_on` are columns of which it is known that they are unique, `known_by` those
    that identify a row. `total` is how many rows the table has; None means those that it `held`, and `rows`.
    """

    place: Place
    rows: DataFrame
    parent: Callable[[str], DataFrame]
    beside: DataFrame | None = None
    unique_on: tuple[str, ...] = ()
    known_by: tuple[str, ...] = ()
    total: int | None = None
    held: int = 0

    def results(self, checks: Sequence[Check]) -> tuple[Checked, ...]:
        """How each fared."""
        named = [self._named(check) for check in checks]
        look = self._look([check for check in named if not self._is_known(check)])
        return tuple(self._checked(check, look) for check in named)

    def _checked(self, check: Check, look: _Look | None) -> Checked:
        if isinstance(check, RowCount):
            return self._counted(check, look)
        if look is None or self._is_known(check):
            return Checked(check, self.place, None)
        if not look.rows:
            return Checked(check, self.place, 0)
        match check:
            case Unique():
                return self._searched(check, self._repeated(check, look), look)
            case Relationships():
                return self._searched(check, self._orphans(check, look), look)
            case _:
                return self._seen(check, look)

    def _is_known(self, check: Check) -> bool:
        """Whether it can be decided without reading any row."""
        match check:
            case RowCount():
                return self.total is not None
            case Unique(columns):
                keys = {column.lower() for column in self.unique_on}
                return bool(keys) and keys <= {column.lower() for column in columns}
            case _:
                return False

    def _counted(self, check: RowCount, look: _Look | None) -> Checked:
        count = self.held + (look.rows if look else 0) if self.total is None else self.total
        few, many = count < (check.least or 0), check.most is not None and count > check.most
        return Checked(check, self.place, count, int(few or many))

    def _seen(self, check: RowCheck, look: _Look) -> Checked:
        failures = look.broken[check]
        if not failures:
            return Checked(check, self.place, look.rows)
        broken = self.rows.where(self._violation(check))
        if isinstance(check, AcceptedValues):
            return Checked(check, self.place, look.rows, failures, *samples(broken, check.columns, as_value))
        known_by = self.known_by or tuple(broken.columns[:_FEW_COLUMNS])
        names = [spelled(name, broken.columns) for name in (*known_by, *check.columns)]
        shown = list(dict.fromkeys(name for name in names if name is not None))
        return Checked(check, self.place, look.rows, failures, *samples(broken, shown, as_row))

    def _searched(self, check: Unique | Relationships, broken: DataFrame, look: _Look) -> Checked:
        failures = broken.count()
        if not failures:
            return Checked(check, self.place, look.rows)
        return Checked(check, self.place, look.rows, failures, *samples(broken, broken.columns, as_value))

    # one pass over the rows

    def _look(self, checks: Sequence[Check]) -> _Look | None:
        if not checks:
            return None
        seen = [check for check in checks if isinstance(check, RowCheck)]
        ranged = self._ranged(checks)
        counts = [F.count_if(F.expr(self._violation(check))).alias(f"broken {n}") for n, check in enumerate(seen)]
        parts = [part for item in ranged for part in range_columns(item)]
        found = self.rows.agg(F.count(F.lit(1)).alias("rows"), *counts, *parts).first()
        assert found is not None  # noqa: S101  a global aggregate has one row
        return _Look(
            found["rows"],
            {check: found[f"broken {n}"] for n, check in enumerate(seen)},
            {item.column: span for item in ranged if (span := range_of(found, item))},
        )

    def _ranged(self, checks: Sequence[Check]) -> list[Ranged]:
        searched = [check for check in checks if isinstance(check, Unique | Relationships)]
        columns = dict.fromkeys(column for check in searched for column in check.columns)
        kinds = [(column, kind_of(self.rows.schema[column].dataType)) for column in columns]
        return [Ranged(column, kind) for column, kind in kinds if kind]

    def _violation(self, check: RowCheck) -> str:
        if isinstance(check, Holds):
            self._analyse(check)
            return violation(check, {})
        return violation(check, {name: self.rows.schema[name].dataType.simpleString() for name in check.columns})

    def _analyse(self, check: Holds) -> None:
        try:
            _ = self.rows.where(check.condition).schema
        except AnalysisException as failure:
            raise ArgumentError(
                "checks.bad_condition",
                f"The check {check} of {self.place.table} is no condition on its rows: {one_line(failure)}",
                f"Their columns are: {', '.join(self.rows.columns)}.",
                origin=check.origin,
            ) from failure

    # what has to be looked up

    def _repeated(self, check: Unique, look: _Look) -> DataFrame:
        """The values that occur more than once among the rows and those beside them, which are read in their range."""
        columns = check.columns
        coming = _whole(self.rows, columns)
        if self.beside is None or not all(spelled(column, self.beside.columns) for column in columns):
            return held_twice(coming, columns)
        spans = [within(quote(column), look.ranges[column]) for column in columns if column in look.ranges]
        near = _whole(self.beside.where(" AND ".join(spans) or "true"), columns).alias(HELD)
        same = " AND ".join(f"{of(HELD, column)} = {of(COMING, column)}" for column in columns)
        met = near.join(_small(coming, look).alias(COMING), F.expr(same), "left_semi")
        return held_twice(coming.unionByName(met), columns)

    def _orphans(self, check: Relationships, look: _Look) -> DataFrame:
        """The values of the rows that the parent does not have; of the parent only their range is read."""
        child = self.rows.select(F.col(quote(check.column)).alias(_VALUE)).where(f"{quote(_VALUE)} IS NOT NULL")
        parent = self._parent_values(check)
        span = look.ranges.get(check.column)
        if span and kind_of(parent.schema[_VALUE].dataType) is span.low.kind:
            parent = parent.where(within(quote(_VALUE), span))
        same = F.expr(f"{of(HELD, _VALUE)} = {of(COMING, _VALUE)}")
        known = parent.alias(HELD).join(_small(child, look).alias(COMING), same, "left_semi").distinct()
        return child.alias(COMING).join(_small(known, look).alias(HELD), same, "left_anti")

    def _parent_values(self, check: Relationships) -> DataFrame:
        if check.to != self.place.table.lower():
            return _values(self.parent(check.to), check)
        own = _values(self.rows, check)
        return own if self.beside is None else own.union(_values(self.beside, check))

    def _named(self, check: Check) -> Check:
        """The check with its columns as the rows spell them."""
        match check:
            case Holds() | RowCount():
                return check
            case AcceptedValues(column) | Relationships(column):
                return replace(check, column=_spelling(column, self.rows, check, self.place.table))
            case _:
                names = tuple(_spelling(name, self.rows, check, self.place.table) for name in check.columns)
                return replace(check, columns=names)


def _values(rows: DataFrame, check: Relationships) -> DataFrame:
    return rows.select(F.col(quote(_spelling(check.to_column, rows, check, check.to))).alias(_VALUE))


def _whole(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns, where none of them is NULL, in a form that can be compared."""
    picked = rows.select(*map(quote, columns))
    return picked.where(" AND ".join(f"{quote(column)} IS NOT NULL" for column in columns)).select(
        *comparable(picked, frozenset())
    )


def _small(rows: DataFrame, look: _Look) -> DataFrame:
    """Rows that are no more than those that are checked, sent to where others are read if they are few."""
    return F.broadcast(rows) if look.rows <= FEW_KEYS else rows


def _spelling(column: str, rows: DataFrame, check: Check, table: str) -> str:
    found = spelled(column, rows.columns)
    if found is None:
        raise ArgumentError(
            "checks.unknown_column",
            f"The check {check} names {column}, which the rows of {table} do not have.",
            f"They have: {', '.join(rows.columns)}.",
            origin=check.origin,
        )
    return found
