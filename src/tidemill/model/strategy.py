"""How a change enters a table. Plain data; `tidemill.changes` gives it behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.model.window import Condition


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


@dataclass(frozen=True, slots=True)
class Replace:
    """The table becomes what the source gives. `by_default`: nobody gave its max_shrink, so it allows no loss."""

    max_shrink: float | None = None
    by_default: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_share(self.max_shrink)

    def __str__(self) -> str:
        return "replace"


@dataclass(frozen=True, slots=True)
class Append:
    """New rows enter once; ties and late rows within the lookback included."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows enter by their keys, in one of five forms.

    `newest_by`: the source may hold several versions of a row, and the one with the highest of this column counts.
    """

    keys: tuple[str, ...]
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
    def keeps_rows(self) -> bool:
        """Whether rows stay that the source no longer returns."""
        return self.form is not MergeStrategy.FULL_MERGE

    def __str__(self) -> str:
        return f"merge {self.form}"


@dataclass(frozen=True, slots=True)
class DeleteInsert:
    """The rows that match one predicate become exactly the query's rows that match it.

    Without a predicate it is `time_column >= start of the window`. `condition` is a predicate with @names: each run
    puts values into it. `max_shrink` decides over no row, so that it is left out of the hash of a declaration.
    """

    predicate: str | None = None
    condition: Condition | None = None
    max_shrink: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_share(self.max_shrink)

    def __str__(self) -> str:
        return "delete_insert"


@dataclass(frozen=True, slots=True)
class IncrementalJoin(DeleteInsert):
    """The rows of a window become those of the join in it: a new window is appended, one that was done stays."""

    def __str__(self) -> str:
        return "incremental_join"


Strategy = Replace | Append | Merge | DeleteInsert


def one_predicate(strategy: DeleteInsert, window: str | None) -> str:
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
