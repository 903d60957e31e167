"""Changes that are added to the sums beside a materialized view: the sums of the groups that they concern."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidemill.changes.match import FEW_ROWS, within
from tidemill.changes.profile import profile
from tidemill.changes.replace_keys import replacing
from tidemill.errors import StateError
from tidemill.execution.view_sums import Sums, read_sums, reading, store_of_sums
from tidemill.formats.base import COMING, HELD, OverwriteRows, Profile
from tidemill.formats.port import WEIGHT
from tidemill.ivm import NotIncremental
from tidemill.model import of, quote
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from tidemill.execution.attempt import Attempt
    from tidemill.execution.relations import Relations
    from tidemill.formats.base import KeyRange, Operation
    from tidemill.ivm import Summed

_BEFORE, _CHANGE, _AFTER, _ALL = (f"__tidemill_sums_{each}" for each in ("before", "change", "after", "all"))


@dataclass(frozen=True, slots=True)
class AddedUp:
    """The groups that a change concerns, by the relations that have their sums, and what becomes of all sums."""

    rule: Summed
    sums: Sums
    groups: int | None = None  # None where all rows are in one
    change: str = _CHANGE

    @property
    def signed(self) -> str:
        """The rows of the view that come with these groups, and those that go."""
        sides = {1: self.rule.visible(_AFTER), -1: self.rule.visible(_BEFORE)}
        return " UNION ALL ".join(f"SELECT *, {sign} AS {WEIGHT} FROM ({text})" for sign, text in sides.items())

    def visible(self, keys: str, *, alone: bool) -> str:
        """The rows of the view that have these keys; `alone` says that they are those of the groups."""
        is_whole = alone and len(self.rule.on) == len(self.rule.key_columns)
        return self.rule.visible(_AFTER) if is_whole else self.rule.visible(_ALL, keys)


def add_up(attempt: Attempt, relations: Relations, rule: Summed, change: str) -> AddedUp:
    """Adds what a statement gives to the sums of its groups, and looks at them before anything relies on them.

    `NotIncremental` where the sums are not there, or cannot give exact values any more.
    """
    kept = relations.refresh.inputs.sums if relations.refresh.inputs else None
    assert kept is not None  # noqa: S101  planned on them
    store = relations.opened.enter_context(closing(store_of_sums(attempt.table.path)))
    held = read_sums(relations.session, store, kept.content)
    came = settle(_as(held.schema, relations.session.sql(change)))
    known = _profile(came, rule)
    before, after = _register(held, came, known, rule)
    found = _checked(attempt, relations.session, rule)
    operation = _operation(before if found["held"] else None, after, known, rule, covered=not found["gone"])
    return AddedUp(rule, Sums(kept.content, operation), known.rows if rule.key_columns else None)


def _as(schema: StructType, rows: DataFrame) -> DataFrame:
    """In the columns and types that the sums have: those of a sum of sums are wider."""
    return rows.select(*[F.col(quote(each.name)).cast(each.dataType).alias(each.name) for each in schema.fields])


def _profile(came: DataFrame, rule: Summed) -> Profile:
    """Of the groups that a change concerns."""
    if not rule.key_columns:
        return Profile(1)
    keys = came.select(*rule.key_columns)
    return profile(keys, keys=keys.columns, listed=keys.columns)


def _register(held: DataFrame, came: DataFrame, known: Profile, rule: Summed) -> tuple[DataFrame, DataFrame]:
    """The sums of the groups before the change and after it, computed once, under names that statements know."""
    keys, session, came = rule.key_columns, held.sparkSession, _sent(came, known)
    near = held.where(" AND ".join(within(quote(span.column), span) for span in _ranges(known)) or "true")
    with reading():
        before = settle(_met(near, came, keys, "left_semi") if keys else near)
    came.createOrReplaceTempView(_CHANGE)
    before.createOrReplaceTempView(_BEFORE)
    after = settle(_as(held.schema, session.sql(rule.merged(_BEFORE, _CHANGE))))
    after.createOrReplaceTempView(_AFTER)
    others = _met(held, came, keys, "left_anti") if keys else held.limit(0)
    others.unionByName(after).createOrReplaceTempView(_ALL)
    return before, after


def _ranges(known: Profile) -> tuple[KeyRange, ...]:
    """Where the groups are, if none of them is NULL."""
    return () if known.null_keys else known.ranges


def _sent(rows: DataFrame, known: Profile) -> DataFrame:
    return F.broadcast(rows) if known.rows <= FEW_ROWS else rows


def _met(held: DataFrame, came: DataFrame, keys: tuple[str, ...], how: str) -> DataFrame:
    same = " AND ".join(f"{of(HELD, key)} <=> {of(COMING, key)}" for key in keys)
    return held.alias(HELD).join(came.select(*keys).alias(COMING), F.expr(same), how)


def _checked(attempt: Attempt, session: SparkSession, rule: Summed) -> Row:
    """How many groups were `held`, and how many are `gone`; an error where the sums cannot be those of the inputs."""
    beyond = [f"({text})" for each in (_CHANGE, _AFTER) if (text := rule.beyond(each))]
    found = session.sql(
        f"SELECT ({rule.impossible(_AFTER)}) AS impossible, {' + '.join(beyond) or '0'} AS beyond,"
        f" (SELECT count(*) FROM {_BEFORE}) AS held, (SELECT count(*) FROM {_AFTER} WHERE n = 0) AS gone"
    ).first()
    assert found is not None  # noqa: S101  it has one row
    if found["impossible"]:
        raise _not_of_these_inputs(attempt.table.name)
    if found["beyond"]:
        raise NotIncremental("sums of it have become too large to be added up exactly")
    return found


def _not_of_these_inputs(name: str) -> StateError:
    return StateError(
        "state.sums_not_as_recorded",
        f"The sums that are kept beside {name} are not those of its inputs: a group would have fewer rows than none.",
        "Run it with --full-refresh, which computes them again. It is unchanged.",
    )


def _operation(
    before: DataFrame | None, after: DataFrame, known: Profile, rule: Summed, *, covered: bool
) -> Operation | None:
    """The sums of the groups take the place of those that were there; groups without rows leave."""
    keys = rule.key_columns
    if not keys:
        return OverwriteRows(after)
    if not known.rows:
        return None
    gone = None if before is None else _sent(before.select(*keys), known)
    rows = _sent(after.where("n <> 0"), known)
    return replacing(after.schema, keys, gone, rows, _ranges(known), covered=covered)
