"""Whether a view is refreshed sooner by the changes of its inputs, or whole: by what both have taken, else by rules of
thumb. It only chooses; both give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from statistics import median_low
from typing import TYPE_CHECKING

from tidemill.display import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidemill.model.record import Commit
    from tidemill.planning.refresh import InputState, ViewInputs

_FEW_BYTES = 64 * 1024 * 1024  # of all inputs together: less is read sooner than changes are looked for
_SMALL = 0.1  # of the bytes of all inputs: one with less is read as a whole anyway, so that it may change as a whole
_MOST_CHANGED = 0.2  # of the rows of an input that is not small; then all of it is read as soon
_MOST_KEYS = 0.3  # of the rows of the view
_COMMITS = 20  # so many back a refresh is forgotten: what was slow then is tried again
_LAST = 3  # of each kind count, by their median: two wrong guesses in a row turn the choice round
_LEAST = 2  # incremental refreshes tell what one takes
_ALIKE = 4  # times as much, or as little, and one refresh says nothing about another


@dataclass(frozen=True, slots=True)
class PastRefresh:
    """What one refresh took: `seconds`, with inputs of so many bytes, of which at most so many rows had changed."""

    is_full: bool
    seconds: float
    size: int | None = None
    changed: int | None = None


def cost_record(inputs: ViewInputs | None, began: datetime) -> dict[str, object]:
    """What a record says of a refresh besides, so that later ones know what it took: the commit has its end."""
    found = {"bytes": inputs.size, "rows": rows_changed(inputs)} if inputs else {}
    return {"began": began.isoformat(), **{name: value for name, value in found.items() if value is not None}}


def past_refreshes(commits: Iterable[Commit], sql_hash: str | None) -> list[PastRefresh]:
    """What the last refreshes of a view by the same query took, newest first."""
    records = [(each, each.record) for each in islice(commits, _COMMITS)]
    of_query = [(each.at, record.refresh) for each, record in records if record and record.sql_hash == sql_hash]
    return [found for at, refresh in of_query if (found := _past(at, refresh))]


def _past(at: str, refresh: Mapping[str, object]) -> PastRefresh | None:
    """None where a record of an older version does not tell."""
    cost = refresh.get("cost")
    if not isinstance(cost, dict):
        return None
    seconds = (datetime.fromisoformat(at) - datetime.fromisoformat(cost["began"])).total_seconds()
    return PastRefresh(refresh.get("mode") == "full", max(seconds, 0.0), cost.get("bytes"), cost.get("rows"))


def rows_changed(inputs: ViewInputs) -> int | None:
    """At most so many rows of all inputs came or went, where their logs say."""
    counts = [changed_rows(each) for each in inputs.changed]
    return None if None in counts else sum(count for count in counts if count is not None)


def changed_rows(state: InputState) -> int | None:
    """At most so many rows of an input came or went, where its log says."""
    changes = state.changes
    if state.pending or changes is None or changes.added is None or changes.removed is None:
        return None
    return changes.added + changes.removed


def why_whole(inputs: ViewInputs) -> str | None:
    """Why it costs less to compute a view whole than to follow these changes; None where it does not."""
    past = inputs.past()
    last = [each for each in past if not each.is_full and _is_alike(each.changed, rows_changed(inputs))][:_LAST]
    whole = [each for each in past if each.is_full and _is_alike(each.size, inputs.size)][:_LAST]
    if len(last) < _LEAST or not whole:
        return _by_thumb(inputs)
    by_changes = median_low(each.seconds for each in last)
    in_full = median_low(each.seconds * _growth(each.size, inputs.size) for each in whole)
    if by_changes <= in_full:
        return None
    return f"the last {len(last)} incremental ones took {_seconds(by_changes)}, full ones {_seconds(in_full)}"


def _is_alike(then: int | None, now: int | None) -> bool:
    return then is not None and now is not None and 1 / _ALIKE <= _growth(then, now) <= _ALIKE


def _growth(then: int | None, now: int | None) -> float:
    return max(now or 0, 1) / max(then or 0, 1)


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"  # noqa: PLR2004  as people say them


def _by_thumb(inputs: ViewInputs) -> str | None:
    """Looking for changes pays where little of much has changed; measured by `make bench`."""
    if inputs.size is not None and are_small(inputs):
        return f"its inputs are small ({size_text(inputs.size)}), so that reading them whole is faster"
    for each in inputs.changed:
        rows = changed_rows(each)
        if rows and each.rows and rows > _MOST_CHANGED * each.rows and not _is_small(each, inputs):
            most = f"at most {rows:,} changed rows of {each.shown}, which has {each.rows:,}"
            return f"{most}: reading all of them is faster"
    return None


def are_small(inputs: ViewInputs) -> bool:
    """Whether reading them whole takes no longer than looking for changes."""
    return inputs.size is not None and inputs.size < _FEW_BYTES


def _is_small(state: InputState, inputs: ViewInputs) -> bool:
    """Whether all of an input may have changed, as when a dimension is loaded again: the others are what costs."""
    return state.size is not None and state.size < max(_FEW_BYTES, _SMALL * (inputs.size or 0))


def why_many_keys(keys: int, key: str, rows: int | None) -> str | None:
    """Why it costs less to compute a view with so many rows whole than the pieces of so many keys."""
    if rows is None or keys <= _MOST_KEYS * rows:
        return None
    return f"{keys:,} values of {key} have changed, and the view has {rows:,} rows: computing all of them is faster"
