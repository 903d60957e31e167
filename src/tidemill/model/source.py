"""A source: rows from outside, by its kind and its parameters; and several LOADs of sources into one table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ArgumentError
from tidemill.model import spelled
from tidemill.model.project import Masking, secrets_in
from tidemill.model.query import Producing
from tidemill.model.strategy import Merge, MergeStrategy, Replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tidemill.errors import Origin
    from tidemill.model.cursor import Duration
    from tidemill.model.strategy import Strategy
    from tidemill.model.table import Table, Window

Value = TypeVar("Value")
SHARED = ("columns", "batch_size", "primary_key", "cursor_field", "start_date")  # the params that all kinds take


@dataclass(frozen=True, slots=True)
class Source:
    """Rows from outside. `params` are those of its kind; relative paths in them start at `folder`.

    `cursor`, `lookback` and `start` say which window of it a run reads; `columns` which columns there are, all
    where none are named. `secrets` are values that no text may show, beside those that `params` give away.
    """

    name: str
    kind: str
    params: Mapping[str, object] = field(default_factory=dict, repr=False)  # they may hold passwords
    cursor: str | None = None
    lookback: Duration | int | None = None
    start: str | None = None
    primary_key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    batch_size: int | None = None
    origin: Origin | None = None
    folder: Path | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise bad_param(self, "batch_size", "a whole number above zero")
        needed = [*self.primary_key, *([self.cursor] if self.cursor else [])]
        lost = [name for name in needed if self.columns and spelled(name, self.columns) is None]
        if lost:
            raise ArgumentError(
                "source.column_left_out",
                f"The columns of {self.name} leave out {', '.join(lost)}, which it needs as its cursor or key.",
                "Add them to columns.",
                origin=self.origin,
            )

    def __str__(self) -> str:
        return self.name

    @property
    def masking(self) -> Masking:
        """Hides its secrets: those given, and the values of passwords, tokens, headers and the like in `params`."""
        return Masking(self.secrets | secrets_in(self.params))


def source_of(
    name: str,
    kind: str,
    params: Mapping[str, object],
    *,
    cursor: str | None = None,
    lookback: Duration | int | None = None,
    start: str | None = None,
    primary_key: tuple[str, ...] = (),
    origin: Origin | None = None,
    folder: Path | None = None,
    secrets: frozenset[str] = frozenset(),
) -> Source:
    """The declaration that a kind and its params make, with the params that all kinds share taken out of them.

    Those are the `SHARED` ones; what is given beside the params wins over them.
    """
    bare = Source(name, kind, origin=origin)
    left = dict(params)

    def taken(param: str, read: Callable[[object], Value | None], wanted: str) -> Value | None:
        if left.get(param) is None:
            left.pop(param, None)
            return None
        value = read(left.pop(param))
        if value is None:
            raise bad_param(bare, param, wanted)
        return value

    by_param, by_date = taken("cursor_field", as_text, "a text"), taken("start_date", as_text, "a text")
    by_key = taken("primary_key", as_names, "a name or a list of names")
    return Source(
        name,
        kind,
        cursor=cursor or by_param,
        lookback=lookback,
        start=start or by_date,
        primary_key=primary_key or by_key or (),
        columns=taken("columns", as_names, "a name or a list of names") or (),
        batch_size=taken("batch_size", as_count, "a whole number above zero"),
        params=left,
        origin=origin,
        folder=folder,
        secrets=secrets,
    )


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_names(value: object) -> tuple[str, ...] | None:
    """One name, or a list of names."""
    names = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(str(name) for name in names) if names and all(as_text(name) for name in names) else None


def as_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def bad_param(source: Source, name: str, wanted: str) -> ArgumentError:
    return ArgumentError(
        "source.bad_param", f"{name} of the source {source} must be {wanted}.", "Correct it.", origin=source.origin
    )


@dataclass(frozen=True, slots=True)
class Load:
    """One of several LOADs into a table. `input` is the name of its source in the record of the table."""

    source: Source
    strategy: Strategy
    input: str
    window: Window | None = None
    origin: Origin | None = None

    @property
    def cursor(self) -> str | None:
        return self.window.time_column.lower() if self.window else None

    @property
    def producer(self) -> Loaded:
        """What gives the rows of a table that has no other LOAD."""
        return Loaded(self.source)

    def __str__(self) -> str:
        return f"{self.source.name} {self.strategy.label}"

    @property
    def declared(self) -> tuple[object, ...]:
        """What of it decides which rows the table holds."""
        return (self.source.name, self.strategy, self.window)


@dataclass(frozen=True, slots=True)
class Loaded(Producing):
    """The rows of a source, as they are."""

    source: Source

    def loads_of(self, table: Table) -> tuple[Load, ...]:
        return (Load(self.source, table.strategy, table.input, table.window, table.origin),)


@dataclass(frozen=True, slots=True)
class Loads(Producing):
    """The LOADs of one table, in the order of the file. Raises where their result would depend on when runs happen."""

    loads: tuple[Load, ...]

    def __post_init__(self) -> None:
        self._check_sources()
        self._check_replacing()
        if not self.recomputed:
            self._check_keys()
            self._check_cursors()

    @property
    def as_loads(self) -> Loads:
        return self

    def loads_of(self, table: Table) -> tuple[Load, ...]:
        del table
        return self.loads

    @property
    def recomputed(self) -> bool:
        """Whether each run computes the table whole: its first LOAD says what the table becomes."""
        return self.loads[0].strategy.is_whole

    @property
    def rounds(self) -> tuple[tuple[Load, ...], ...]:
        """The LOADs that enter as one change, in the order in which such changes are applied.

        A table that is recomputed takes one LOAD after the other. Else all APPENDs come first: a row that is appended
        and has a key of a MERGE before it is an error, so that no result depends on this order.
        """
        if self.recomputed:
            return tuple((load,) for load in self.loads)
        appends = tuple(load for load in self.loads if load.strategy.appends)
        merges = tuple(load for load in self.loads if load.strategy.keys)
        return tuple(each for each in (appends, merges) if each)

    @property
    def strategy(self) -> Strategy:
        """The strategy of the table as a whole: how what all of them give enters it."""
        first, keys = self.loads[0].strategy, {_keys(load.strategy) for load in self.loads}
        if first.is_whole and first.keys and len(keys) > 1:
            return Replace(first.max_shrink)
        return first if self.recomputed else strategy_of(self.rounds[-1])

    @property
    def window(self) -> Window | None:
        """The common cursor of all of them, where a run reads windows and there is one."""
        column = None if self.recomputed else common_cursor(self.loads)
        return replace(_window(self.loads[0]), start=None, lookback=None) if column else None

    def __str__(self) -> str:
        return ", ".join(str(load) for load in self.loads)

    def _check_sources(self) -> None:
        seen: dict[str, Load] = {}
        for load in self.loads:
            if seen.setdefault(load.input.lower(), load) is not load:
                raise ArgumentError(
                    "load.same_source",
                    f"{load.source.name} is loaded into the same table twice.",
                    f"The first LOAD of it is at {seen[load.input.lower()].origin}. Remove one of them.",
                    origin=load.origin,
                )

    def _check_replacing(self) -> None:
        for load in self.loads[1:]:
            if load.strategy.is_whole:
                raise ArgumentError(
                    "load.replaces_others",
                    f"LOAD … FROM {load.source.name} replaces all that the LOADs before it bring into the table.",
                    "Write MODE APPEND or MODE MERGE ON its keys; only the first of several LOADs can replace.",
                    origin=load.origin,
                )

    def _check_keys(self) -> None:
        merges = [load for load in self.loads if load.strategy.keys]
        for load in merges[1:]:
            if _keys(load.strategy) != _keys(merges[0].strategy):
                raise ArgumentError(
                    "load.other_keys",
                    f"{load.source.name} is merged on {', '.join(load.strategy.keys)}, and "
                    f"{merges[0].source.name} into the same table on {', '.join(merges[0].strategy.keys)}.",
                    "Merge all of them on the same keys, or let the first LOAD be MODE REPLACE: then each run computes "
                    "the table whole.",
                    origin=load.origin,
                )
            if _only_newer(load.strategy) != _only_newer(merges[0].strategy):
                raise ArgumentError(
                    "load.only_newer",
                    f"only_newer of {load.source.name} is not that of {merges[0].source.name}, and both are merged "
                    "into the same table.",
                    "Give all MERGEs of a table the same only_newer.",
                    origin=load.origin,
                )

    def _check_cursors(self) -> None:
        appends = [load for load in self.loads if load.strategy.appends]
        for load in appends[1:]:
            if load.cursor != appends[0].cursor:
                raise ArgumentError(
                    "load.other_cursor",
                    f"{load.source.name} is read {_by(load)}, and {appends[0].source.name}, which is appended to the "
                    f"same table, {_by(appends[0])}: a row that is here already would look like a new one.",
                    "Read all sources that are appended to a table by the same cursor column (INCREMENTAL BY), or let "
                    "the first LOAD be MODE REPLACE.",
                    origin=load.origin,
                )


def common_cursor(loads: tuple[Load, ...]) -> str | None:
    """The column by which all of these sources are read, in lower case; None where there is no such."""
    columns = {load.cursor for load in loads}
    return next(iter(columns)) if len(columns) == 1 else None


def strategy_of(together: tuple[Load, ...]) -> Strategy:
    """How the rows of a round enter the table, when each source has one row per key."""
    first = together[0].strategy
    if len(together) == 1 or not first.keys:
        return first
    forms = {load.strategy.form for load in together}
    form = forms.pop() if len(forms) == 1 else None
    return Merge(first.keys, form or MergeStrategy.UPSERT, only_newer=first.only_newer)


def _keys(strategy: Strategy) -> frozenset[str]:
    return frozenset(key.lower() for key in strategy.keys)


def _only_newer(strategy: Strategy) -> str | None:
    return strategy.only_newer.lower() if strategy.only_newer else None


def _by(load: Load) -> str:
    return f"by {load.window.time_column}" if load.window else "without a cursor"


def _window(load: Load) -> Window:
    assert load.window is not None  # noqa: S101  it has the common cursor
    return load.window
