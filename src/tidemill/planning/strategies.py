"""What planning and execution have to know of a strategy: one function per concern, with which strategies register."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.model.strategy import Append, DeleteInsert, IncrementalJoin, Merge, MergeStrategy, Replace

if TYPE_CHECKING:
    from tidemill.model.strategy import Strategy
    from tidemill.model.window import Condition

EVERYTHING = "everything is read, and only what differs is written"


@singledispatch
def keys_of(strategy: Strategy) -> tuple[str, ...]:  # noqa: ARG001  dispatched on
    """The columns that identify a row; none where rows are not matched by any."""
    return ()


@keys_of.register(Merge)
def _(strategy: Merge) -> tuple[str, ...]:
    return strategy.keys


@singledispatch
def condition_of(strategy: Strategy) -> Condition | None:  # noqa: ARG001  dispatched on
    """The condition with @names that says which rows of the table a run is about."""
    return None


@condition_of.register(DeleteInsert)
def _(strategy: DeleteInsert) -> Condition | None:
    return strategy.condition


@singledispatch
def predicate_of(strategy: Strategy) -> str | None:  # noqa: ARG001  dispatched on
    """The rows of the source that may enter, where the strategy says so."""
    return None


@predicate_of.register(DeleteInsert)
def _(strategy: DeleteInsert) -> str | None:
    return strategy.predicate


@singledispatch
def replaces_all(strategy: Strategy) -> bool:  # noqa: ARG001  dispatched on
    """Whether the table becomes what its source gives, whatever it held."""
    return False


@replaces_all.register(Replace)
def _(strategy: Replace) -> bool:  # noqa: ARG001  dispatched on
    return True


@singledispatch
def appends(strategy: Strategy) -> bool:  # noqa: ARG001  dispatched on
    """Whether rows enter beside those that are there, which are compared as a whole and never changed."""
    return False


@appends.register(Append)
def _(strategy: Append) -> bool:  # noqa: ARG001  dispatched on
    return True


@singledispatch
def joins(strategy: Strategy) -> bool:  # noqa: ARG001  dispatched on
    """Whether each run adds a window that is final."""
    return False


@joins.register(IncrementalJoin)
def _(strategy: IncrementalJoin) -> bool:  # noqa: ARG001  dispatched on
    return True


@singledispatch
def deletes_missing(strategy: Strategy) -> bool:  # noqa: ARG001  dispatched on
    """Whether rows leave whose keys the source does not give."""
    return False


@deletes_missing.register(Merge)
def _(strategy: Merge) -> bool:
    return strategy.form is MergeStrategy.FULL_MERGE


@singledispatch
def only_updates(strategy: Strategy) -> bool:  # noqa: ARG001  dispatched on
    """Whether only rows change that are there already."""
    return False


@only_updates.register(Merge)
def _(strategy: Merge) -> bool:
    return strategy.form is MergeStrategy.UPDATE


@singledispatch
def reason_of_everything(strategy: Strategy) -> str:  # noqa: ARG001  dispatched on
    """Why a run that has no window reads all of its source."""
    return EVERYTHING


@reason_of_everything.register(Append)
def _(strategy: Append) -> str:  # noqa: ARG001  dispatched on
    return "everything is read, and every row is appended"
