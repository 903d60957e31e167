"""What `tidemill explain` finds: how the next run brings a table up to date, why, and what would prevent it."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.errors import Origin
    from tidemill.formats.port import RowsBy
    from tidemill.ivm import BlockText
    from tidemill.model.strategy import Refresh

Found = TypeVar("Found")


class NextRun(StrEnum):
    """How the next run goes. One that `fails` would need a full refresh, which its declaration does not allow."""

    FIRST = "first run"
    INCREMENTAL = "incremental"
    FULL = "full"
    UP_TO_DATE = "up to date"
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """A rule by which changed rows become those of the view.

    `linear` reads nothing of the changed table but its changes; `local` computes the rows again whose `key` a change
    has, `grouped` the groups; `summed` adds it to sums that are kept beside the view; `telescoped` takes one change
    after another. `columns` are those of the view that hold the key; without any, rows are entered by their content.
    """

    name: str
    key: str | None
    columns: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.name} by {self.key}" if self.key else self.name


@dataclass(frozen=True, slots=True)
class Prevented:
    """Why a refresh cannot be incremental, as a part of a sentence, and where in a file that stands."""

    reason: str
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"{self.reason} · {self.origin}" if self.origin else self.reason


@dataclass(frozen=True, slots=True)
class ExplainedInput:
    """A table that a view reads: its version when the view was last refreshed, and now.

    `changed` is None where nobody knows, `pending` where an earlier step of the same run may change it. At most
    `added` rows came since and `removed` went. `read_by` is how these can be read, `refusal` why they cannot. `rules`
    are those that fit if it alone changes, the best first; without any, `prevented` says why.
    """

    table: str
    recorded: int | None = None
    version: int | None = None
    rows: int | None = None
    size: int | None = None
    changed: bool | None = None
    pending: bool = False
    added: int | None = None
    removed: int | None = None
    read_by: RowsBy | None = None
    refusal: str | None = None
    rules: tuple[ExplainedRule, ...] = ()
    prevented: Prevented | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How the next run brings a table up to date, and why; of a query alone, how it could be.

    The rest is about materialized views, and about queries: the `rule` of the next run; what `prevented` it or, where
    it is no full one, would prevent the runs that follow; the `inputs`; and the `query` as a tree of blocks.

    >>> found = tidemill.Project.load("shop").explain("daily")[0]
    >>> found.table, found.reason
    ('daily', 'up to date: its inputs are unchanged')
    """

    table: str | None = None
    strategy: str | None = None
    origin: Origin | None = None
    next_run: NextRun | None = None
    reason: str | None = None
    refresh: Refresh | None = None
    rule: ExplainedRule | None = None
    prevented: Prevented | None = None
    inputs: tuple[ExplainedInput, ...] = ()
    query: BlockText | None = None
    notices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """What there is to say: most tables are no materialized views."""
        shown = [each.name for each in fields(self) if getattr(self, each.name) not in (None, ())]
        return f"Explanation({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def reworded(found: Found, text: Callable[[str], str]) -> Found:
    """The same with all texts in it as `text` makes them."""
    changed: Any = found
    if isinstance(found, str) and not isinstance(found, StrEnum):
        changed = text(found)
    elif isinstance(found, tuple):
        changed = tuple(reworded(each, text) for each in found)
    elif is_dataclass(found) and not isinstance(found, type):
        changed = replace(found, **{each.name: reworded(getattr(found, each.name), text) for each in fields(found)})
    return changed  # type: ignore[no-any-return]
