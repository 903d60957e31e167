"""How a change enters a table. Plain data with facts about itself; `tidemill.changes` gives it behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.model.cursor import Condition


class MergeStrategy(StrEnum):
    """The five forms of a merge. Wherever one is expected, its name as a text will do.

    >>> tidemill.MergeStrategy("full_merge")
    <MergeStrategy.FULL_MERGE: 'full_merge'>
    """

    UPSERT = "upsert"
    INSERT = "insert"
    UPDATE = "update"
    FULL_MERGE = "full_merge"
    DEDUPLICATE = "deduplicate"


class Refresh(StrEnum):
    """How a materialized view follows its inputs. Wherever one is expected, its name as a text will do.

    >>> tidemill.Refresh("incremental")
    <Refresh.INCREMENTAL: 'incremental'>
    """

    AUTO = "auto"
    INCREMENTAL = "incremental"
    FULL = "full"


class RefreshCheck(StrEnum):
    """Whether each incremental refresh of a materialized view is compared with its whole query before its commit."""

    NEVER = "never"
    ALWAYS = "always"


class _Strategy:
    """What holds of a strategy unless its class says otherwise.

    Code asks for these facts, never for the class: a new strategy states its own. What is done by strategy is a
    function that is dispatched on it.
    """

    __slots__ = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which rows of a change meet rows of the table; without any, they do not."""
        return ()

    @property
    def form(self) -> MergeStrategy | None:
        """The form of a merge."""
        return None

    @property
    def dedup_order_by(self) -> tuple[str, ...]:
        """Of several rows of a key, the one that is highest by these enters."""
        return ()

    @property
    def only_newer(self) -> str | None:
        """The column by which a row must not be older than the one that it replaces."""
        return None

    @property
    def newest_by(self) -> str | None:
        """The column whose highest value says which version of a row counts."""
        return None

    @property
    def predicate(self) -> str | None:
        """Which rows of the table a change replaces, beside what the window says."""
        return None

    @property
    def condition(self) -> Condition | None:
        """The predicate before a run has put values in the place of its @names."""
        return None

    @property
    def max_shrink(self) -> float | None:
        """The share of its rows that the table may lose in one run."""
        return None

    @property
    def allowed_loss(self) -> float | None:
        """The share of a protected table's rows that its user lets go; None allows no loss."""
        return self.max_shrink

    @property
    def appends(self) -> bool:
        """Whether rows of the table stay as they are, and new ones are those that it does not hold yet."""
        return False

    @property
    def replaces(self) -> bool:
        """Whether the table becomes what the change gives, its columns included."""
        return False

    @property
    def is_whole(self) -> bool:
        """Whether the change says which rows the table has: those that it lacks go."""
        return self.replaces

    @property
    def deletes_missing(self) -> bool:
        """Whether rows are matched by key, and those leave whose keys the change does not have."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """Whether only rows with a key of the change are touched, so that those stay which no longer come."""
        return False

    @property
    def stays_in_window(self) -> bool:
        """Whether a row outside the window would be lost or doubled by the next run."""
        return False

    @property
    def finishes_windows(self) -> bool:
        """Whether the rows of a window are final once it is committed."""
        return False

    @property
    def refresh(self) -> Refresh | None:
        """How a view follows its inputs by what changed in them; None for all else."""
        return None

    @property
    def checks_refresh(self) -> bool:
        """Whether a view is compared with its whole query before each commit."""
        return False

    @property
    def row_key(self) -> tuple[str, ...]:
        """Columns that no two rows of a change share, by what its query shows; nothing is matched by them."""
        return ()

    @property
    def label(self) -> str:
        """The strategy and its keys, as people read them and records hold them."""
        return f"{self} on {', '.join(self.keys)}" if self.keys else str(self)


@dataclass(frozen=True, slots=True)
class Replace(_Strategy):
    """The table becomes what the source gives. `by_default`: nobody gave its max_shrink, so it allows no loss."""

    max_shrink: float | None = None
    by_default: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_share(self.max_shrink)

    @property
    def allowed_loss(self) -> float | None:
        return None if self.by_default else self.max_shrink

    @property
    def replaces(self) -> bool:
        return True

    def __str__(self) -> str:
        return "replace"


@dataclass(frozen=True, slots=True)
class MaterializedView(Replace):
    """The table is what its query gives at the versions of its inputs that its record names.

    `refresh` decides how it comes to be that, not what it is, so that it is left out of the hash of a declaration; so
    is `refresh_check`, which is the project's where it is None. `row_key` are columns that no two rows of the query
    share, where it shows that: they tell updated rows from others.
    """

    refresh: Refresh = field(default=Refresh.AUTO, repr=False)
    row_key: tuple[str, ...] = field(default=(), repr=False)  # field(), or the property above were its default
    refresh_check: RefreshCheck | None = field(default=None, repr=False)

    @property
    def checks_refresh(self) -> bool:
        return self.refresh_check is RefreshCheck.ALWAYS

    def __str__(self) -> str:
        return "materialized_view"


@dataclass(frozen=True, slots=True)
class Append(_Strategy):
    """New rows enter once; ties and late rows within the lookback included."""

    @property
    def appends(self) -> bool:
        return True

    @property
    def stays_in_window(self) -> bool:
        return True

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Merge(_Strategy):
    """Rows enter by their keys, in one of five forms.

    `newest_by`: the source may hold several versions of a row, and the one with the highest of this column counts.
    """

    keys: tuple[str, ...] = field()  # field(), or the property above were its default
    form: MergeStrategy = MergeStrategy.UPSERT
    dedup_order_by: tuple[str, ...] = ()
    only_newer: str | None = None
    max_shrink: float | None = None
    newest_by: str | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise ArgumentError(
                "merge.no_keys",
                "A merge needs key columns, and none are given.",
                'Name them with on="order_id" or --on.',
            )
        if len({key.lower() for key in self.keys}) < len(self.keys):
            raise ArgumentError(
                "merge.repeated_key",
                f"A key column is named twice: {', '.join(self.keys)}.",
                "Name each key column once.",
            )
        _check_share(self.max_shrink)

    @property
    def deletes_missing(self) -> bool:
        return self.form is MergeStrategy.FULL_MERGE

    @property
    def is_whole(self) -> bool:
        return self.deletes_missing

    @property
    def keeps_rows(self) -> bool:
        return not self.is_whole

    def __str__(self) -> str:
        return f"merge {self.form}"


@dataclass(frozen=True, slots=True)
class DeleteInsert(_Strategy):
    """The rows that match one predicate become exactly the query's rows that match it.

    Without a predicate it is `time_column >= start of the window`. `condition` is a predicate with @names: each run
    puts values into it. `max_shrink` decides over no row, so that it is left out of the hash of a declaration.
    """

    predicate: str | None = None
    condition: Condition | None = None
    max_shrink: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_share(self.max_shrink)

    @property
    def stays_in_window(self) -> bool:
        return True

    def __str__(self) -> str:
        return "delete_insert"


@dataclass(frozen=True, slots=True)
class IncrementalJoin(DeleteInsert):
    """The rows of a window become those of the join in it: a new window is appended, one that was done stays."""

    @property
    def stays_in_window(self) -> bool:
        """It gives the rows of its window and no others."""
        return False

    @property
    def finishes_windows(self) -> bool:
        return True

    def __str__(self) -> str:
        return "incremental_join"


Strategy = Replace | Append | Merge | DeleteInsert


def one_predicate(strategy: Strategy, window: str | None) -> str:
    """What removes the table's rows and filters the query's: what only one of the two did would be lost or doubled."""
    parts = [part for part in (strategy.predicate, window) if part]
    return " AND ".join(f"({part})" for part in parts) if len(parts) > 1 else next(iter(parts), "true")


def merge_form(name: MergeStrategy | str) -> MergeStrategy:
    """Reads a form by its name, in any case."""
    try:
        return MergeStrategy(str(name).lower())
    except ValueError as failure:
        raise ArgumentError(
            "merge.unknown_strategy",
            f"{name!r} is no merge strategy.",
            f"Use one of {', '.join(MergeStrategy)}.",
        ) from failure


def _check_share(share: float | None) -> None:
    if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1):
        raise ArgumentError(
            "table.bad_max_shrink",
            f"max_shrink is a share from 0 to 1, not {share}.",
            "Write 0.1 for a tenth of the rows.",
        )
