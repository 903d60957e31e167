"""What a run is asked for: which nodes of the graph, a backfill in batches, a full refresh."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, did_you_mean
from tidemill.model.cursor import Cursor, CursorKind, Duration, cursor, duration, first_behind, present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidemill.model.graph import Graph
    from tidemill.model.table import Table


@dataclass(frozen=True, slots=True)
class Backfill:
    """What was asked for: bounds as users write them, and how much one commit takes."""

    start: str | None = None
    end: str | None = None
    batch: Duration | int | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and self.start is None:
            raise ArgumentError(
                "backfill.no_start", "Batches need a start to be counted from.", "Give --start beside --batch."
            )
        if isinstance(self.batch, int) and self.batch < 1:
            raise ArgumentError("backfill.bad_batch", f"A batch of {self.batch} is none.", "Give at least 1.")
        if all(_is_time(bound) for bound in (self.start, self.end)):  # in order or not, whatever the column
            self.bounds(CursorKind.TIMESTAMP)

    def __str__(self) -> str:
        words = [f"from {self.start}" if self.start else "", f"to {self.end}" if self.end else ""]
        return " ".join(word for word in (*words, f"by {self.batch}" if self.batch else "") if word)

    def to_json(self) -> dict[str, str]:
        return {name: str(value) for name in ("start", "end", "batch") if (value := getattr(self, name)) is not None}

    def parts(self, kind: CursorKind, now: datetime, done: Mapping[str, str]) -> list[Part]:
        """Its batches on a cursor of this kind, without those that `done` lists: an earlier try of the same."""
        start, end = self.bounds(kind, now.tzinfo)
        begin = self.reached(kind, done)
        parts = list(self._cut(start, end, kind, now))
        return [part for part in parts if begin is None or part.start is None or begin <= part.start]

    def bounds(self, kind: CursorKind, zone: tzinfo | None = UTC) -> tuple[Cursor | None, Cursor | None]:
        """Where it starts and what lies behind its end, on a cursor of this kind; raises where they mean nothing."""
        start = _given("start", self.start, kind, zone) if self.start is not None else None
        end = first_behind(_given("end", self.end, kind, zone), self.end, zone) if self.end is not None else None
        if start is not None and end is not None and end <= start:
            raise ArgumentError(
                "backfill.empty", f"Nothing lies between {self.start} and {self.end}.", "Give an --end after --start."
            )
        return start, end

    def mark(self, reached: str) -> dict[str, str]:
        """What the record keeps, so that the same backfill goes on from there."""
        return {**self.to_json(), "reached": reached}

    def reached(self, kind: CursorKind, done: Mapping[str, str]) -> Cursor | None:
        """How far an earlier try of the same has come, by the mark of it; None where there was none."""
        same = "reached" in done and self.mark(done["reached"]) == dict(done)
        return cursor(kind, done["reached"]) if same else None

    def _cut(self, start: Cursor | None, end: Cursor | None, kind: CursorKind, now: datetime) -> Iterator[Part]:
        if self.batch is None or start is None:
            yield Part(self, start, start, end)
            return
        last = end or (present(kind, now) if kind.is_time else None)
        if last is None:
            raise ArgumentError(
                "backfill.no_end", f"Batches over a column of type {kind} need an end.", "Give --end beside --batch."
            )
        low, number = start, 1
        while (high := start.plus(self.batch, number)) < last:
            yield Part(self, start, low, high)
            low, number = high, number + 1
        yield Part(self, start, low, end)


@dataclass(frozen=True, slots=True)
class Part:
    """One batch of a backfill: from `start`, open where there is none, up to and without `end`.

    `begin` is where the backfill as a whole starts: what lies between is in the table when this batch is read.
    """

    of: Backfill
    begin: Cursor | None
    start: Cursor | None
    end: Cursor | None

    @property
    def mark(self) -> dict[str, str]:
        """What the record keeps, so that the same backfill goes on behind this batch; nothing after the last."""
        if self.of.batch is None or self.end is None:
            return {}
        return self.of.mark(self.end.text())

    def __str__(self) -> str:
        return f"{self.start or 'the beginning'} … {self.end or 'the end'}"


def backfill_of(start: str | None, end: str | None, batch: str | int | None) -> Backfill | None:
    """The backfill that flags ask for, or None when they ask for none."""
    if start is None and end is None and batch is None:
        return None
    text = batch.strip() if isinstance(batch, str) else batch
    length = int(text) if isinstance(text, str) and text.isdecimal() else text
    return Backfill(start, end, duration(length) if isinstance(length, str) else length)


def _given(flag: str, text: str, kind: CursorKind, zone: tzinfo | None) -> Cursor:
    try:
        return cursor(kind, text, zone)
    except ArgumentError as bad:
        raise ArgumentError(bad.code, f"--{flag} is {text!r}, which is no {kind}.", bad.remedy) from bad


def _is_time(text: str | None) -> bool:
    try:
        return text is not None and bool(datetime.fromisoformat(text.strip()))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Request:
    """A full refresh, or a backfill; else every table reads what is new."""

    full_refresh: bool = False
    backfill: Backfill | None = None

    def starts(self, table: Table) -> bool:
        """Whether it says where the run of this table starts, whatever its declaration says."""
        return self.backfill is not None and self.backfill.start is not None and table.reads_windows

    def __post_init__(self) -> None:
        if self.full_refresh and self.backfill:
            raise ArgumentError(
                "run.refresh_and_backfill",
                "A full refresh reads everything, so it takes no --start, --end or --batch.",
                "Leave out --full-refresh, or the bounds.",
            )


USUAL = Request()

TAG = "tag:"


def chosen(
    graph: Graph, select: Sequence[str], exclude: Sequence[str], short: Callable[[str], str], catalog: str | None = None
) -> Graph:
    """The part of the graph that is selected and not excluded; all of it where nothing is named.

    A selector is a name, a name with wildcards, or `tag:NAME`; `+` before it takes all that it reads too, `+` after it
    all that reads it. `short` gives the name as users write it, and
    `catalog` may stand before a name.
    """
    choosing = _Choosing(graph, short, catalog)
    selected = choosing.all_of(select) if select else set(graph.nodes)
    return graph.only(selected - choosing.all_of(exclude))


class _Choosing:
    def __init__(self, graph: Graph, short: Callable[[str], str], catalog: str | None) -> None:
        self.graph, self.short, self.catalog = graph, short, catalog

    def all_of(self, selectors: Iterable[str]) -> set[str]:
        return {name for selector in selectors for name in self._named(selector)}

    def _named(self, selector: str) -> set[str]:
        upstream, downstream = selector.startswith("+"), selector.endswith("+")
        wanted = selector.removeprefix("+").removesuffix("+")
        found = {name for name in self.graph.nodes if self._is(wanted, name)}
        if not found:
            raise self._nothing(selector, wanted)
        above = _reached(found, self.graph.upstream) if upstream else set()
        below = _reached(found, self.graph.downstream) if downstream else set()
        return found | above | below

    def _is(self, wanted: str, name: str) -> bool:
        node = self.graph.nodes[name]
        if wanted.startswith(TAG):
            return wanted.removeprefix(TAG) in getattr(node, "tags", ())
        spellings = [node.name, self.short(node.name), *([f"{self.catalog}.{node.name}"] if self.catalog else [])]
        return any(fnmatchcase(each.lower(), wanted.lower()) for each in spellings)

    def _nothing(self, selector: str, wanted: str) -> ArgumentError:
        if wanted.startswith(TAG):
            known = sorted({tag for node in self.graph.nodes.values() for tag in getattr(node, "tags", ())})
            what, word = wanted.removeprefix(TAG), "tags"
        else:
            known, what, word = [self.short(node.name) for node in self.graph.nodes.values()], wanted, "tables"
        close = did_you_mean(what, known)
        return ArgumentError(
            "plan.nothing_selected",
            f"Nothing is selected by {selector}.",
            f"Did you mean {close}?"
            if close
            else f"The {word} are {', '.join(known)}."
            if known
            else f"There are no {word}.",
        )


def _reached(found: set[str], neighbours: Callable[[str], Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(found)
    while waiting:
        for name in neighbours(waiting.pop()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen
