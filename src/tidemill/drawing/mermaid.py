"""A graph as a Mermaid flowchart, which many sites and editors draw."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidemill.drawing.boxes import Shape

if TYPE_CHECKING:
    from tidemill.drawing.boxes import Box, Picture

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
