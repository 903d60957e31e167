"""Tables that fit a terminal: where they are too wide, columns give way by their importance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tidemill.cli.fitting import size, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Way = Literal["cut", "wrap", "drop", "last"]
Gives = Mapping[str, tuple[Way, int]]
_GAP = 2


@dataclass(frozen=True, slots=True)
class Looks:
    """How a table looks, by its headings.

    `gives` are the columns that give way, the least important first, with how narrow they may become: `cut` ends
    cells with …, `wrap` goes on below, `drop` leaves the column out; `last` leaves it out where that is not enough.
    Where nothing is, columns leave altogether: no line is wider than the terminal.
    Of `paths` the end is kept. `paint` colours a piece of a cell.
    """

    right: frozenset[str] = frozenset()
    gives: Gives = field(default_factory=dict)
    paths: frozenset[str] = frozenset()
    paint: Mapping[str, Callable[[str], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Laid:
    """The lines of a table, headings first, and the columns for which there was no room."""

    heading: tuple[str, ...]
    lines: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def laid(headings: Sequence[str], lines: Sequence[Sequence[str]], looks: Looks, width: int | None) -> Laid:
    """The table in at most this width, if that is given; a column in which nothing stands is not in it."""
    kept = [n for n, _ in enumerate(headings) if any(line[n] for line in lines)]
    widths = {n: max(size(line[n]) for line in (headings, *lines)) for n in kept}
    words = {n: max(size(word) for line in lines for word in (line[n].split() or [""])) for n in kept}
    fitted = widths if width is None else _fitted(headings, widths, words, looks.gives, width)
    head, *rows = [_row(headings, line, fitted, looks) for line in (headings, *lines)]
    left_out = tuple(headings[n] for n in kept if n not in fitted)
    return Laid(tuple(head), tuple(part for row in rows for part in row), left_out)


def _fitted(
    headings: Sequence[str], widths: Mapping[int, int], words: Mapping[int, int], gives: Gives, width: int
) -> dict[int, int]:
    """The widths of the columns that stay; what goes on below is at least as wide as its longest word."""
    found = dict(widths)

    def over() -> int:
        return sum(found.values()) + _GAP * (len(found) - 1) - width

    for heading, (way, least) in gives.items():
        n = headings.index(heading)
        if n in found and over() > 0 and way == "drop":
            del found[n]
        elif n in found and over() > 0 and way != "last":
            word = words[n] if way == "wrap" else 0
            found[n] = min(found[n], max(found[n] - over(), least, word, size(heading)))
    leaving = next(_leaving(headings, found, gives), None) if over() > 0 else None
    if leaving is None:
        return found
    rest = {n: size for n, size in widths.items() if n != leaving}  # the others have its room
    return _fitted(headings, rest, words, gives, width)


def _leaving(headings: Sequence[str], found: Mapping[int, int], gives: Gives) -> Iterator[int]:
    """The columns that leave one after another where to be shorter is not enough; the first column stays."""
    ways = {headings.index(heading): way for heading, (way, _) in gives.items()}
    others = sorted(found)[1:]
    yield from (n for n in reversed(others) if ways.get(n) in {"cut", "last"})
    yield from (n for n, way in ways.items() if n in others and way == "wrap")


def _row(headings: Sequence[str], line: Sequence[str], widths: Mapping[int, int], looks: Looks) -> list[str]:
    cells = {n: _cell(headings[n], line[n], room, looks) for n, room in widths.items()}
    height = max((len(parts) for parts in cells.values()), default=1)
    found = []
    for m in range(height):
        pieces = [
            _piece(headings[n], parts[m] if m < len(parts) else "", widths[n], looks) for n, parts in cells.items()
        ]
        found.append((" " * _GAP).join(pieces).rstrip())
    return found


def _piece(heading: str, part: str, width: int, looks: Looks) -> str:
    space = " " * (width - size(part))
    painted = looks.paint.get(heading, str)(part)
    return f"{space}{painted}" if heading in looks.right else f"{painted}{space}"


def _cell(heading: str, text: str, room: int, looks: Looks) -> list[str]:
    if size(text) <= room:
        return [text]
    way = looks.gives.get(heading, ("cut", 0))[0]
    return wrapped(text, room) if way == "wrap" else [shortened(text, room, end=heading in looks.paths)]


def shortened(text: str, room: int, *, end: bool = False) -> str:
    """The text in so many columns, with … where something is left out: at its start if its end counts.

    Between words, if most of it stays then.
    """
    if size(text) <= room:
        return text
    if end:
        return f"…{_first(text[::-1], room - 1)[::-1]}"
    start = _first(text, room - 1)
    words = start.rpartition(" ")[0].rstrip(" ,·")
    return f"{words if len(words) > room // 2 else start}…"


def _first(text: str, room: int) -> str:
    """As much of the text as there is room for."""
    while size(text) > room:
        text = text[:-1]
    return text
