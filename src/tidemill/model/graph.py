"""The graph of all that is declared: what must be there before what; cycles and unknown names are errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Protocol

from tidemill.errors import ArgumentError, Origin, did_you_mean
from tidemill.model.query import View, through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class Node(Protocol):
    """A table, a view or an export: what it is called, and what it reads."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def origin(self) -> Origin | None: ...


@dataclass(frozen=True)
class Graph:
    """Nodes by their names in lower case, in the order in which they are declared.

    `views` are no nodes of it, but nodes read them all the same, and through them other nodes.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Graph:
        return cls({node.name.lower(): node for node in nodes})

    def check(self, is_outside: Callable[[str], bool]) -> list[ArgumentError]:
        """Everything that is wrong with it; `is_outside` knows the tables that nothing here declares."""
        unknown = [
            _unknown(node, name, self.nodes)
            for node in self.nodes.values()
            for name in node.inputs
            if name.lower() not in self.nodes and not is_outside(name)
        ]
        return unknown or self._cycle()

    def upstream(self, name: str) -> tuple[str, ...]:
        """The nodes that this one reads, with no other node between them."""
        read = (each.lower() for each in through(self.nodes[name].inputs, self.views))
        return tuple(each for each in read if each in self.nodes and each != name)

    def downstream(self, name: str) -> tuple[str, ...]:
        """The nodes that read this one, with no other node between them."""
        return tuple(each for each in self.nodes if name in self.upstream(each))

    def only(self, names: Iterable[str]) -> Graph:
        """The graph of these nodes, each with what it reads among them, be it through a view that is not."""
        kept = set(names)
        views = {name: node for name, node in self.nodes.items() if name not in kept and isinstance(node, View)}
        return Graph({name: node for name, node in self.nodes.items() if name in kept}, {**self.views, **views})

    def in_order(self) -> list[Node]:
        """What is read stands before what reads it; else the order of declaration is kept."""
        done: dict[str, Node] = {}
        for name in self.nodes:
            self._visit(name, done)
        return list(done.values())

    def sorter(self) -> TopologicalSorter[str]:
        return TopologicalSorter({name: self.upstream(name) for name in self.nodes})

    def _visit(self, name: str, done: dict[str, Node]) -> None:
        if name in done:
            return
        for before in self.upstream(name):
            self._visit(before, done)
        done[name] = self.nodes[name]

    def _cycle(self) -> list[ArgumentError]:
        own = [_circle(node, [node.name]) for node in self.nodes.values() if node.name.lower() in _lower(node.inputs)]
        try:
            self.sorter().prepare()
        except CycleError as failure:
            names = [self.nodes[name].name for name in reversed(failure.args[1])]
            return [*own, _circle(self.nodes[names[0].lower()], names)]
        return own


def duplicates(nodes: Iterable[Node]) -> list[ArgumentError]:
    """The nodes whose name another one has; a graph would keep one of them only."""
    first: dict[str, Node] = {}
    return [
        ArgumentError(
            "plan.duplicate_name",
            f"{node.name} is declared twice.",
            f"The first is at {first[node.name.lower()].origin}. Rename one of them, or remove it.",
            origin=node.origin,
        )
        for node in nodes
        if first.setdefault(node.name.lower(), node) is not node
    ]


def _lower(names: Iterable[str]) -> Iterator[str]:
    return (name.lower() for name in names)


def _unknown(node: Node, name: str, known: Iterable[str]) -> ArgumentError:
    close = did_you_mean(name, [each for each in known if each != node.name.lower()])
    hint = f"Did you mean {close}? " if close else ""
    return ArgumentError(
        "plan.unknown_table",
        f"{node.name} reads {name}, which nothing declares and the warehouse does not hold.",
        f'{hint}Declare it, or name outside data in tidemill.toml under [sources."{name}"].',
        origin=node.origin,
    )


def _circle(node: Node, names: list[str]) -> ArgumentError:
    chain = " → ".join([*names, names[0]] if len(names) == 1 else names)
    return ArgumentError(
        "plan.cycle",
        f"Tables read each other in a circle: {chain}.",
        "Break it: one of them has to be made without the others.",
        origin=node.origin,
    )
