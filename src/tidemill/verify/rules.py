"""What of a table is compared, by its strategy: what a strategy keeps or ignores by its meaning is no difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from tidemill.declare.strategies import Append, DeleteInsert, Merge, MergeStrategy, Replace, one_predicate
from tidemill.verify.result import Kind

if TYPE_CHECKING:
    from tidemill.declare.strategies import Strategy


@dataclass(frozen=True, slots=True)
class Rule:
    """How rows are compared: by `keys` where there are any.

    `only_here` and `only_full` say what a row is that only the table, or only a full run, holds; `differs` what one
    is that both hold with different values. With `only_newer`, a full run's row that is older by that column is
    ignored.
    """

    keys: tuple[str, ...] = ()
    differs: Kind = Kind.DIFFERENT
    only_newer: str | None = None
    only_here: Kind = Kind.EXTRA
    only_full: Kind = Kind.MISSING


@singledispatch
def rule_for(strategy: Strategy) -> Rule:
    raise NotImplementedError(strategy)


@rule_for.register(Replace)
@rule_for.register(Append)
@rule_for.register(DeleteInsert)
def _(strategy: Strategy) -> Rule:  # noqa: ARG001  dispatched on
    return Rule()


@rule_for.register(Merge)
def _(strategy: Merge) -> Rule:
    return Rule(
        keys=strategy.keys,
        differs=Kind.IGNORED if strategy.form is MergeStrategy.INSERT else Kind.DIFFERENT,
        only_newer=strategy.only_newer,
        only_here=Kind.KEPT if strategy.keeps_rows else Kind.EXTRA,
        only_full=Kind.IGNORED if strategy.form is MergeStrategy.UPDATE else Kind.MISSING,
    )


@singledispatch
def bounds_of(strategy: Strategy, window: str | None) -> str:  # noqa: ARG001  dispatched on
    """The rows of the table that a full run answers for; `window` is what it reads."""
    return window or "true"


@bounds_of.register(Merge)
def _(strategy: Merge, window: str | None) -> str:  # noqa: ARG001  dispatched on
    return "true"  # a row may have moved in time; its key stays


@bounds_of.register(DeleteInsert)
def _(strategy: DeleteInsert, window: str | None) -> str:
    return one_predicate(strategy, window)
