"""A histogram as an SVG: a bar for each value, and the span between two of them marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.drawing.svg import xml

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDTH, _HEIGHT, _MARGIN, _LINE = 720.0, 260.0, 24.0, 17.0
_MOST_LABELS = 12
_STYLE = """
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
    wide = (_WIDTH - 2 * _MARGIN) / (last - first + 1)
    highest = max((*shown.counts.values(), 1))
    ground = _HEIGHT - _MARGIN - _LINE

    def left(value: float) -> float:
        return _MARGIN + (value - first) * wide

    def bar(value: int, count: int) -> str:
        height = max(count / highest * (ground - _MARGIN - _LINE), 1.0)
        kind = "bar" if shown.low <= value <= shown.high else "outside"
        box = f'x="{left(value) + wide * 0.1:.1f}" y="{ground - height:.1f}" width="{wide * 0.8:.1f}"'
        return f'<rect class="{kind}" {box} height="{height:.1f}"><title>{value}: {count:,}</title></rect>'

    def bound(value: float) -> str:
        return f'<path class="bound" d="M{left(value):.1f} {_MARGIN + _LINE:.1f}V{ground:.1f}"/>'

    step = max(1, -(-(last - first + 1) // _MOST_LABELS))
    labels = [
        f'<text x="{left(value + 0.5):.1f}" y="{ground + _LINE:.1f}" text-anchor="middle">{value}</text>'
        for value in range(first, last + 1)
        if value % step == 0
    ]
    body = [
        f'<text x="{_MARGIN}" y="{_MARGIN}">{xml(shown.title)}</text>',
        *(bar(value, count) for value, count in sorted(shown.counts.items())),
        bound(shown.low),
        bound(shown.high + 1),
        f'<path class="axis" d="M{_MARGIN} {ground:.1f}H{_WIDTH - _MARGIN}"/>',
        *labels,
        f'<text x="{_WIDTH - _MARGIN}" y="{_MARGIN}" text-anchor="end">{xml(shown.unit)}</text>',
    ]
    frame = f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}"'
    inside = "\n".join(body)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>\n<style>{_STYLE}</style>\n{inside}\n</svg>\n'
