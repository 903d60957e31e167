"""What a picture of a project shows, and the picture as lines of text and as a Mermaid flowchart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Item = TypeVar("Item")


class Shape(StrEnum):
    SOURCE = "source"
    TABLE = "table"
    VIEW = "view"
    EXPORT = "export"


@dataclass(frozen=True, slots=True)
class Box:
    """One source, table, view or export. `reads` are the ids of other boxes.

    `kind` is how it is maintained, `changed_at` the moment of its last commit and `fresh` how long ago that was.
    """

    id: str
    name: str
    shape: Shape
    kind: str
    watermark: str = ""
    changed_at: str = ""
    fresh: str = ""
    status: str = ""
    origin: str = ""
    reads: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What is shown below its name."""
        since = f"up to {self.watermark}" if self.watermark else ""
        last = " · ".join(word for word in (f"changed {self.fresh}" if self.fresh else "", self.status) if word)
        return [line for line in (self.kind, since, last) if line]


@dataclass(frozen=True)
class Picture:
    """Boxes, each after what it reads. `title` stands beside them."""

    title: str
    boxes: tuple[Box, ...]

    @cached_property
    def by_id(self) -> dict[str, Box]:
        return {box.id: box for box in self.boxes}

    @property
    def edges(self) -> list[tuple[str, str]]:
        """From what is read to what reads it, each once."""
        return [(read, box.id) for box in self.boxes for read in dict.fromkeys(box.reads)]

    @cached_property
    def depths(self) -> dict[str, int]:
        """How many boxes lie before each, on the longest way to it."""
        found: dict[str, int] = {}
        for box in self.boxes:
            found[box.id] = 1 + max((found[read] for read in box.reads), default=-1)
        return found


MARKS = {Shape.SOURCE: "◇", Shape.TABLE: "■", Shape.VIEW: "□", Shape.EXPORT: "▷"}


@dataclass(frozen=True, slots=True)
class Line:
    """A box in the tree. `text` has its branch, its mark and its name; `also` are boxes that it reads beside."""

    text: str
    box: Box
    also: tuple[Box, ...] = ()


def tree(picture: Picture) -> list[Line]:
    """As many lines as boxes: one that reads several stands below one of them, and names the others."""
    below: dict[str | None, list[Box]] = {}
    for box in picture.boxes:
        below.setdefault(_parent(picture, box), []).append(box)
    return [
        Line(
            f"{branch}{MARKS[box.shape]} {box.name}",
            box,
            tuple(picture.by_id[read] for read in dict.fromkeys(box.reads) if read != _parent(picture, box)),
        )
        for branch, box in branched(below.get(None, []), lambda box: below.get(box.id, []))
    ]


def _parent(picture: Picture, box: Box) -> str | None:
    return max(box.reads, key=picture.depths.__getitem__, default=None)


def branched(
    items: Sequence[Item], below: Callable[[Item], Sequence[Item]], under: str | None = None
) -> Iterator[tuple[str, Item]]:
    """Items with their branches, each followed by what stands below it; those at the top have none."""
    for number, item in enumerate(items):
        is_last = number == len(items) - 1
        yield "" if under is None else f"{under}{'└─ ' if is_last else '├─ '}", item
        deeper = "" if under is None else f"{under}{'   ' if is_last else '│  '}"
        yield from branched(below(item), below, deeper)


_SHAPES = {
    Shape.SOURCE: ("[(", ")]"),
    Shape.TABLE: ("[", "]"),
    Shape.VIEW: ("([", "])"),
    Shape.EXPORT: (">", "]"),
}
_PLAIN = re.compile(r"[^\w ./:,·-]")
_CLASSES = (
    "  classDef view stroke-dasharray: 4 3",
    "  classDef failed stroke: #cf222e, stroke-width: 2px",
)


def mermaid(picture: Picture) -> str:
    """The text of a flowchart, from left to right. No name can end a label, or be read as a word of Mermaid's."""
    ids = {box.id: f"n{number}" for number, box in enumerate(picture.boxes)}
    nodes = [f"  {ids[box.id]}{_node(box)}" for box in picture.boxes]
    edges = [f"  {ids[start]} --> {ids[end]}" for start, end in picture.edges]
    return "\n".join([f"%% {_one_line(picture.title)}", "flowchart LR", *nodes, *edges, *_CLASSES, ""])


def escaped(text: str) -> str:
    """Everything that could mean something to Mermaid, Markdown or HTML is a number."""
    return _PLAIN.sub(lambda found: f"#{ord(found[0])};", _one_line(text))


def _node(box: Box) -> str:
    opens, closes = _SHAPES[box.shape]
    label = "<br/>".join([f"<b>{escaped(box.name)}</b>", *map(escaped, box.lines)])
    style = "failed" if box.status == "failed" else "view" if box.shape is Shape.VIEW else ""
    return f'{opens}"{label}"{closes}{f":::{style}" if style else ""}'


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
