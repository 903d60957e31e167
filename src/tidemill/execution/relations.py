"""The names by which the statements of a rule know the rows of a view's inputs, and the keys of its pieces."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.changes.few_keys import MOST, few_keys
from tidemill.changes.match import within
from tidemill.changes.net import net_changes
from tidemill.changes.profile import profile
from tidemill.execution.pins import version_in
from tidemill.formats.traits import Capability
from tidemill.spark.session import settle

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.pins import VersionRows
    from tidemill.execution.query_source import ViewSource
    from tidemill.formats.base import Profile
    from tidemill.planning.refresh import InputState, RefreshPlan, ViewInputs

# Settled rows that stand in a statement twice have constraints on columns of which Spark has lost track: they were
# noted where a column cannot be NULL, and are not found again where it may be (`key not found: k0#12`).
_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"


@dataclass
class Relations:
    """The names by which the statements of a rule know the rows of a view's inputs, in one session of a step's own."""

    session: SparkSession
    source: ViewSource
    refresh: RefreshPlan
    opened: ExitStack
    changed_rows: int = 0  # of all inputs, once their changes are settled
    _stores: dict[str, VersionRows] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.session.conf.set(_CONSTRAINTS, "false")

    def keyed(self, number: int | None = None) -> KeyedRelations:
        """The same, with keys of their own: those of one term of a rule, or of the groups that all terms concern."""
        return KeyedRelations(self, "__tidemill_groups" if number is None else f"__tidemill_keys_{number}")

    def now(self, table: str) -> str:
        """All rows of an input, at its pinned version."""
        return self._give("now", table, lambda store, state: store.read(self.session, self._pinned(store, state)))

    def before(self, table: str) -> str:
        """All rows of an input, at the version that the last run recorded."""
        return self._give("before", table, lambda store, state: store.read(self.session, version_in(state.recorded)))

    def changes(self, table: str) -> str:
        """The rows that came and went, which `settle_changes` has read."""
        return self._give("changes", table, lambda store, state: self._changes(store, state).where("false"))

    def settle_changes(self) -> dict[str, int]:
        """Reads the changes of all inputs once; how many rows came and went, by input."""
        found = {}
        for state in self._inputs.changed:
            rows = settle(self._changes(self._store(state), state))
            found[state.name] = rows.count()
            self._register(self._relation("changes", state), rows)
        self.changed_rows = sum(found.values())
        return found

    def _give(self, what: str, table: str, read: Callable[[VersionRows, InputState], DataFrame]) -> str:
        state = next(each for each in self._inputs.states if table.lower() in each.written)
        name = self._relation(what, state)
        if name not in self._given:
            self._register(name, read(self._store(state), state))
        return name

    def _register(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(name)
        self._given.add(name)

    def _store(self, state: InputState) -> VersionRows:
        if state.name not in self._stores:
            pin = self.source.pin(state.name)
            assert pin is not None  # noqa: S101  planned on it
            self._stores[state.name] = self.opened.enter_context(closing(pin.rows()))
        return self._stores[state.name]

    def _pinned(self, store: VersionRows, state: InputState) -> int | None:
        """The version to read; what has no older ones is read as it is, and looked at again before the commit."""
        pin = self.source.pin(state.name)
        return pin.version if pin and store.can(Capability.TIME_TRAVEL) else None

    @property
    def _inputs(self) -> ViewInputs:
        assert self.refresh.inputs is not None  # noqa: S101  planned on them
        return self.refresh.inputs

    def _used(self, state: InputState) -> list[str]:
        """The columns of an input that the query uses, wherever it stands there."""
        assert self.refresh.view is not None  # noqa: S101  it has a rule
        return list(dict.fromkeys(name for written in state.written for name in self.refresh.view.used(written)))

    def _changes(self, store: VersionRows, state: InputState) -> DataFrame:
        """The change as rows of weight 1 and -1, of the columns that the query uses; net, where these are plain."""
        assert state.changes is not None  # noqa: S101  planned on them
        used = self._used(state)
        rows = store.row_changes(self.session, state.changes.since, state.changes.until, used)
        return net_changes(rows)

    def _relation(self, what: str, state: InputState) -> str:
        """By the place of the input among all: names of two schemas may be spelled alike."""
        return f"__tidemill_{what}_{self._inputs.states.index(state)}"


@dataclass(frozen=True, slots=True)
class SettledKeys:
    """The distinct keys k0, k1, … of some pieces, computed once, and their profile."""

    rows: DataFrame
    known: Profile

    def near(self, column: str, number: int) -> str | None:
        """A condition by which files without any of the keys are not read."""
        span = next((each for each in self.known.ranges if each.column == f"k{number}"), None)
        if span is None:
            return None
        near = within(column, span)
        return f"({near} OR {column} IS NULL)" if self.known.null_keys else near


@dataclass(frozen=True, slots=True)
class KeyedRelations:
    """The names of inputs, and of the keys by which one statement cuts them."""

    relations: Relations
    keys: str

    def now(self, table: str) -> str:
        return self.relations.now(table)

    def before(self, table: str) -> str:
        return self.relations.before(table)

    def changes(self, table: str) -> str:
        return self.relations.changes(table)

    def settle(self, rows: DataFrame, most: int | None = None) -> SettledKeys:
        """Keeps the keys under their name; there are so `most` many, where that is known."""
        few = few_keys(rows) if most is not None and most <= MOST else None
        found = SettledKeys(*few) if few else self._settled(rows)
        found.rows.createOrReplaceTempView(self.keys)
        return found

    def _settled(self, rows: DataFrame) -> SettledKeys:
        rows = settle(rows)
        return SettledKeys(rows, profile(rows, keys=rows.columns, listed=rows.columns))
