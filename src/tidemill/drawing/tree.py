"""A graph as lines of text: every box once, below the deepest one that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.drawing.boxes import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.drawing.boxes import Box, Picture

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
        for branch, box in _walk(below, None, "", "")
    ]


def _parent(picture: Picture, box: Box) -> str | None:
    return max(box.reads, key=picture.depths.__getitem__, default=None)


def _walk(below: dict[str | None, list[Box]], parent: str | None, here: str, under: str) -> Iterator[tuple[str, Box]]:
    """Boxes with their branches, each followed by what stands below it."""
    boxes = below.get(parent, [])
    for box in boxes:
        is_root, is_last = parent is None, box is boxes[-1]
        branch = here if is_root else f"{under}{'└─ ' if is_last else '├─ '}"
        deeper = under if is_root else f"{under}{'   ' if is_last else '│  '}"
        yield branch, box
        yield from _walk(below, box.id, "", deeper)
