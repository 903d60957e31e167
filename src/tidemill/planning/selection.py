"""Which nodes of the graph a run is asked for."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tidemill.model.graph import Graph

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
