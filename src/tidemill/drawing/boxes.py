"""What a picture of a project shows: boxes of four shapes, and which reads which."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


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
