"""A graph as an SVG: boxes in layers from left to right, readable on light and on dark pages."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from tidemill.declare.mistakes import cells
from tidemill.drawing.boxes import Shape
from tidemill.drawing.layers import Size, Spot, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.drawing.boxes import Box, Picture

_LETTER, _LINE, _MARGIN, _INSIDE = 7.3, 17.0, 16.0, 14.0
_LONGEST = 48  # letters of a line; the tooltip has the whole
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The edges and the title are of a grey that can be seen on any page; boxes bring their own ground.
_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #57606a }
text.name { font-weight: 600; fill: #1f2328 }
text.failed { fill: #cf222e }
text.title { fill: #848d97 }
.box { fill: #ffffff; stroke: #8c959f }
.source { fill: #eef4fb; stroke: #4a83b8 }
.view { stroke-dasharray: 5 3 }
.export { fill: #f3f8ee; stroke: #6b9a3f }
.box.failed { stroke: #cf222e; stroke-width: 2 }
.edge { fill: none; stroke: #848d97; stroke-width: 1.4 }
#tip path { fill: #848d97 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  text.name { fill: #f0f6fc }
  text.failed { fill: #ff7b72 }
  text.title { fill: #848d97 }
  .box { fill: #161b22; stroke: #6e7681 }
  .source { fill: #13243a; stroke: #4a83b8 }
  .export { fill: #18240f; stroke: #6b9a3f }
  .box.failed { stroke: #ff7b72 }
}
"""
_TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker>'
)


def svg(picture: Picture) -> str:
    """The text of an SVG file. Whatever names hold, it is well-formed XML."""
    placed = layout(picture, {box.id: _size(box) for box in picture.boxes})
    width = max(placed.width, cells(picture.title) * _LETTER) + 2 * _MARGIN
    height = placed.height + 2 * _MARGIN + 2 * _LINE
    edges = [_edge([placed.spots[start], *placed.ways[start, end], placed.spots[end]]) for start, end in picture.edges]
    boxes = [_box(box, placed.spots[box.id]) for box in picture.boxes]
    title = xml(picture.title)
    frame = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img" aria-label="{title}">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            f"<defs>{_TIP}</defs>",
            f'<g transform="translate({_MARGIN} {_MARGIN})">',
            *edges,
            *boxes,
            f'<text class="title" x="0" y="{placed.height + 2 * _LINE:.1f}">{title}</text>',
            "</g>",
            "</svg>",
            "",
        ]
    )


def xml(text: str) -> str:
    """The text as XML can hold it, inside an element or an attribute."""
    return html.escape(_NOT_XML.sub("\ufffd", text))


def _size(box: Box) -> Size:
    widest = max(cells(_cut(line)) for line in (box.name, *box.lines))
    return Size(widest * _LETTER + 2 * _INSIDE + _extra(box), (1 + len(box.lines)) * _LINE + _INSIDE)


def _extra(box: Box) -> float:
    """Room for the tip of an export."""
    return _INSIDE if box.shape is Shape.EXPORT else 0.0


def _box(box: Box, spot: Spot) -> str:
    top = spot.y - spot.size.height / 2
    last = ' class="failed"' if box.status == "failed" else ""
    styles = [' class="name"', *[""] * (len(box.lines) - 1), last]
    lines = [
        f'<text{style} x="{spot.x + _INSIDE:.1f}" y="{top + 20 + number * _LINE:.1f}">{xml(_cut(text))}</text>'
        for number, (style, text) in enumerate(zip(styles, (box.name, *box.lines), strict=True))
    ]
    title = xml("\n".join([box.name, *box.lines]))
    style = f"box {box.shape}{' failed' if last else ''}"
    shape = _outline(box, spot.x, top, spot.size)
    return f'<g><title>{title}</title><path class="{style}" d="{shape}"/>{"".join(lines)}</g>'


def _outline(box: Box, x: float, y: float, size: Size) -> str:
    """A drum for a source, a pill for a view, an arrow for an export, a plain box for a table."""
    right, bottom, half = x + size.width, y + size.height, size.height / 2
    match box.shape:
        case Shape.SOURCE:
            arc = f"{size.width / 2:.1f} 5 0 0"
            lid = f"M{x:.1f} {y:.1f}A{arc} 0 {right:.1f} {y:.1f}A{arc} 0 {x:.1f} {y:.1f}"
            return f"{lid}V{bottom:.1f}A{arc} 0 {right:.1f} {bottom:.1f}V{y:.1f}"
        case Shape.VIEW:
            return _rounded(x, y, size, min(half, _INSIDE))
        case Shape.EXPORT:
            edge = right - _INSIDE
            return f"M{x:.1f} {y:.1f}H{edge:.1f}L{right:.1f} {y + half:.1f} {edge:.1f} {bottom:.1f}H{x:.1f}z"
        case _:
            return _rounded(x, y, size, 3.0)


def _rounded(x: float, y: float, size: Size, radius: float) -> str:
    wide, high = size.width - 2 * radius, size.height - 2 * radius
    corner = f"a{radius} {radius} 0 0 1"
    return (
        f"M{x + radius:.1f} {y:.1f}h{wide:.1f}{corner} {radius} {radius}v{high:.1f}{corner} -{radius} {radius}"
        f"h-{wide:.1f}{corner} -{radius} -{radius}v-{high:.1f}{corner} {radius} -{radius}z"
    )


def _edge(spots: Sequence[Spot]) -> str:
    """From the right side of the first to the left side of the last: straight past a layer, bent between two."""
    parts = [f"M{spots[0].x + spots[0].size.width:.1f} {spots[0].y:.1f}"]
    for spot, then in pairwise(spots):
        right, middle = spot.x + spot.room, (spot.x + spot.room + then.x) / 2
        curve = f"{middle:.1f} {spot.y:.1f} {middle:.1f} {then.y:.1f} {then.x:.1f} {then.y:.1f}"
        parts.append(f"H{right:.1f}C{curve}")
    return f'<path class="edge" marker-end="url(#tip)" d="{"".join(parts)}"/>'


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
