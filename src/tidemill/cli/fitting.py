"""Lines that fit a terminal: broken between words or facts, with what follows aligned below. Texts may be styled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from tidemill.declare.mistakes import cells

if TYPE_CHECKING:
    from collections.abc import Sequence

SEPARATOR = " · "
_GAP = "   "
_ROOM = 30  # columns that facts need beside a head; where there are fewer they begin near the left
_NEAR = 6


def size(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return cells(click.unstyle(text))


def wrapped(text: str, width: int | None, hang: int = 0) -> list[str]:
    """The text in lines of at most this width; those after the first begin `hang` columns from the left.

    Only a word that is longer than a line is longer than it.
    """
    if width is None or size(text) <= width:
        return [text]
    hang = hang if hang <= width // 2 else _NEAR
    lines, line = [], ""
    for gap, word in re.findall(r"( *)([^ ]+)", text):
        if line.strip() and size(line + gap + word) > width:
            lines.append(line.rstrip())
            line = " " * hang + word
        else:
            line += gap + word
    return [*lines, line]


def flowing(head: str, facts: Sequence[str], tail: str, width: int | None) -> list[str]:
    """A head, facts, and what stands last: in one line if that fits, else with facts aligned below each other."""
    end = _GAP + tail if tail else ""
    whole = f"{head}{SEPARATOR.join(facts)}".rstrip() + end
    if width is None or size(whole) <= width:
        return [whole]
    indent = size(head) if width - size(head) >= _ROOM else _NEAR
    first = head if indent == size(head) else ""
    packed = _packed(facts, width - indent, size(end))
    lines = [part for fact in packed for part in wrapped(fact, width - indent)]
    below = [" " * indent + line for line in lines]
    below[:1] = [first + lines[0]] if first else [*wrapped(head.rstrip(), width, _NEAR), *below[:1]]
    last = below[-1] + end
    return [*below[:-1], last] if size(last) <= width else [*below, " " * indent + tail]


def _packed(facts: Sequence[str], width: int, end: int) -> list[str]:
    """As many facts in a line as fit; the last line leaves room for what stands at its end."""
    lines: list[str] = []
    for place, fact in enumerate(facts):
        room = width - (end if place == len(facts) - 1 else 0)
        if lines and size(lines[-1] + SEPARATOR + fact) <= room:
            lines[-1] += SEPARATOR + fact
        else:
            lines.append(fact)
    return lines or [""]
