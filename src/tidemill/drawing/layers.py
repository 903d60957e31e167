"""Where boxes stand in a picture: in layers from left to right, with few crossings and short ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.drawing.boxes import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.drawing.boxes import Picture

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
