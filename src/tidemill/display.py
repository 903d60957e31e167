"""Tables of results as text and as HTML, for consoles and notebooks; sizes as people say them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def text_table(headings: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their longest cell; numbers end where their column does."""
    cells = [[_cell(value) for value in line] for line in lines]
    numbers = [bool(cells) and all(_is_number(line[at]) for line in cells) for at in range(len(headings))]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]

    def shown(line: Sequence[str]) -> str:
        parts = zip(line, widths, numbers, strict=True)
        return "  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in parts).rstrip()

    return "\n".join(map(shown, [headings, *cells]))


def html_table(headings: Sequence[str], lines: Iterable[Sequence[object]], caption: str = "") -> str:
    """A plain table, which takes the looks of the page that it is in. Nothing in it is read as HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join(f"<tr>{''.join(map(_html, line))}</tr>" for line in lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _html(value: object) -> str:
    align = ' style="text-align: right"' if _is_number(_cell(value)) else ' style="text-align: left"'
    return f"<td{align}>{escape(_cell(value))}</td>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(cell: str) -> bool:
    return not cell or cell.replace(",", "").replace(".", "", 1).isdigit()


def size_text(count: int) -> str:
    """Bytes as people say them: 512 B, 1.2 kB, 3.4 MB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < _THOUSAND:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _THOUSAND
    return f"{amount:.1f} TB"


_THOUSAND = 1000
