"""A graph as an SVG, boxes in layers from left to right with few crossings; and a histogram."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tidemill.graphs.picture import Shape
from tidemill.model import cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidemill.graphs.picture import Box, Picture

_SWEEPS = 8
BETWEEN_ROWS = 22.0
BETWEEN_LAYERS = 72.0


@dataclass(frozen=True, slots=True)
class Size:
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Spot:
    """The middle of the left side of a box, its size, and how wide its layer is.

    The place where an edge passes a layer is one too, of no size.
    """

    x: float
    y: float
    size: Size
    room: float


@dataclass(frozen=True, slots=True)
class Layout:
    """`spots` by the ids of boxes, `ways` by edges: the spots that each passes between its ends."""

    spots: dict[str, Spot]
    ways: dict[tuple[str, str], list[Spot]]
    width: float
    height: float


def layout(picture: Picture, sizes: Mapping[str, Size]) -> Layout:
    """A place for every box. An edge over several layers has a place of its own in each that it passes."""
    return _Arranging(picture, sizes).layout()


class _Arranging:
    def __init__(self, picture: Picture, sizes: Mapping[str, Size]) -> None:
        self.picture, self.sizes = picture, dict(sizes)
        self.layers: list[list[str]] = []
        self.before: dict[str, list[str]] = {}
        self.after: dict[str, list[str]] = {}
        self.passed: dict[tuple[str, str], list[str]] = {}
        self._fill(_layer_of(picture))

    def layout(self) -> Layout:
        self._order()
        tops = self._rows()
        highest = min(tops.values(), default=0.0)
        spots: dict[str, Spot] = {}
        x = 0.0
        for layer in self.layers:
            width = max(self.sizes[each].width for each in layer)
            for each in layer:
                size = self.sizes[each]
                spots[each] = Spot(x, tops[each] - highest + size.height / 2, size, width)
            x += width + BETWEEN_LAYERS
        ways = {edge: [spots[each] for each in passed] for edge, passed in self.passed.items()}
        height = max((spot.y + spot.size.height / 2 for spot in spots.values()), default=0.0)
        boxes = {box.id: spots[box.id] for box in self.picture.boxes}
        return Layout(boxes, ways, max(x - BETWEEN_LAYERS, 0.0), height)

    def _fill(self, layer_of: Mapping[str, int]) -> None:
        self.layers = [[] for _ in range(1 + max(layer_of.values(), default=-1))]
        for box in self.picture.boxes:
            self._add(box.id, layer_of[box.id])
        for start, end in self.picture.edges:
            self.passed[start, end] = []
            last = start
            for number in range(layer_of[start] + 1, layer_of[end]):
                waypoint = f"{start}\0{end}\0{number}"
                self._add(waypoint, number)
                self.sizes[waypoint] = Size(0.0, 0.0)
                self.passed[start, end].append(waypoint)
                self._join(last, waypoint)
                last = waypoint
            self._join(last, end)

    def _add(self, each: str, number: int) -> None:
        self.layers[number].append(each)
        self.before[each], self.after[each] = [], []

    def _join(self, start: str, end: str) -> None:
        self.after[start].append(end)
        self.before[end].append(start)

    def _order(self) -> None:
        """Every box moves to the middle of its neighbours, forth and back: that takes most crossings out."""
        for sweep in range(_SWEEPS):
            forth = sweep % 2 == 0
            neighbours = self.before if forth else self.after
            for layer in self.layers if forth else reversed(self.layers):
                place = {each: float(number) for other in self.layers for number, each in enumerate(other)}
                wanted = {each: _middle(neighbours[each], place, place[each]) for each in layer}
                layer.sort(key=wanted.__getitem__)

    def _rows(self) -> dict[str, float]:
        """The upper end of everything: near its neighbours, and never on top of another."""
        tops: dict[str, float] = {}
        for layer in self.layers:
            tops |= self._stacked(layer, dict.fromkeys(layer, 0.0))
        for sweep in range(_SWEEPS):
            forth = sweep % 2 == 0
            neighbours = self.before if forth else self.after
            for layer in self.layers if forth else reversed(self.layers):
                wanted = {each: self._wanted(each, neighbours[each], tops) for each in layer}
                tops |= self._stacked(layer, wanted)
        return tops

    def _wanted(self, each: str, neighbours: list[str], tops: Mapping[str, float]) -> float:
        half = self.sizes[each].height / 2
        centres = {other: tops[other] + self.sizes[other].height / 2 for other in neighbours}
        return _middle(neighbours, centres, tops[each] + half) - half

    def _stacked(self, layer: list[str], wanted: Mapping[str, float]) -> dict[str, float]:
        """As near to where each wants to be as the others let it."""
        tops: dict[str, float] = {}
        free = float("-inf")
        for each in layer:
            tops[each] = max(wanted[each], free)
            free = tops[each] + self.sizes[each].height + BETWEEN_ROWS
        shift = sum(wanted[each] - top for each, top in tops.items()) / len(tops) if tops else 0.0
        return {each: top + shift for each, top in tops.items()}


def _layer_of(picture: Picture) -> dict[str, int]:
    """As far to the left as what is read allows; a source stands just before the first that reads it."""
    depths = picture.depths
    first: dict[str, int] = {}
    for start, end in picture.edges:
        first[start] = min(first.get(start, depths[end]), depths[end])
    return {box.id: first.get(box.id, 1) - 1 if box.shape is Shape.SOURCE else depths[box.id] for box in picture.boxes}


def _middle(neighbours: list[str], place: Mapping[str, float], otherwise: float) -> float:
    return sum(place[each] for each in neighbours) / len(neighbours) if neighbours else otherwise


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


_WIDTH, _HEIGHT, _HISTOGRAM_MARGIN, _HISTOGRAM_LINE = 720.0, 260.0, 24.0, 17.0
_MOST_LABELS = 12
_HISTOGRAM_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #848d97 }
.bar { fill: #4a83b8 }
.outside { fill: #cf222e }
.axis { stroke: #848d97; stroke-width: 1.2 }
.bound { stroke: #6b9a3f; stroke-width: 1.4; stroke-dasharray: 5 3 }
"""


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` by value; values from `low` to `high` lie inside, and `unit` names what is counted along the axis."""

    title: str
    counts: Mapping[int, int]
    low: int
    high: int
    unit: str


def histogram_svg(shown: Histogram) -> str:
    """The text of an SVG file."""
    first, last = min((*shown.counts, shown.low)), max((*shown.counts, shown.high))
    wide = (_WIDTH - 2 * _HISTOGRAM_MARGIN) / (last - first + 1)
    highest = max((*shown.counts.values(), 1))
    ground = _HEIGHT - _HISTOGRAM_MARGIN - _HISTOGRAM_LINE

    def left(value: float) -> float:
        return _HISTOGRAM_MARGIN + (value - first) * wide

    def bar(value: int, count: int) -> str:
        height = max(count / highest * (ground - _HISTOGRAM_MARGIN - _HISTOGRAM_LINE), 1.0)
        kind = "bar" if shown.low <= value <= shown.high else "outside"
        box = f'x="{left(value) + wide * 0.1:.1f}" y="{ground - height:.1f}" width="{wide * 0.8:.1f}"'
        return f'<rect class="{kind}" {box} height="{height:.1f}"><title>{value}: {count:,}</title></rect>'

    def bound(value: float) -> str:
        return f'<path class="bound" d="M{left(value):.1f} {_HISTOGRAM_MARGIN + _HISTOGRAM_LINE:.1f}V{ground:.1f}"/>'

    step = max(1, -(-(last - first + 1) // _MOST_LABELS))
    labels = [
        f'<text x="{left(value + 0.5):.1f}" y="{ground + _HISTOGRAM_LINE:.1f}" text-anchor="middle">{value}</text>'
        for value in range(first, last + 1)
        if value % step == 0
    ]
    body = [
        f'<text x="{_HISTOGRAM_MARGIN}" y="{_HISTOGRAM_MARGIN}">{xml(shown.title)}</text>',
        *(bar(value, count) for value, count in sorted(shown.counts.items())),
        bound(shown.low),
        bound(shown.high + 1),
        f'<path class="axis" d="M{_HISTOGRAM_MARGIN} {ground:.1f}H{_WIDTH - _HISTOGRAM_MARGIN}"/>',
        *labels,
        f'<text x="{_WIDTH - _HISTOGRAM_MARGIN}" y="{_HISTOGRAM_MARGIN}" text-anchor="end">{xml(shown.unit)}</text>',
    ]
    frame = f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}"'
    inside = "\n".join(body)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>\n<style>{_HISTOGRAM_STYLE}</style>\n{inside}\n</svg>\n'
