"""How things look on the terminal: marks, colours, lines and tables that fit its width, errors and JSON."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import click

from tidemill import cli
from tidemill.model import FileError, FileErrors, cells, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidemill.errors import TidemillError

SEPARATOR = " · "
COUNTS = ("inserted", "updated", "deleted", "unchanged", "ignored")
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


Way = Literal["cut", "wrap", "drop", "last"]
Gives = Mapping[str, tuple[Way, int]]
_BETWEEN_COLUMNS = 2


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
        return sum(found.values()) + _BETWEEN_COLUMNS * (len(found) - 1) - width

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
        found.append((" " * _BETWEEN_COLUMNS).join(pieces).rstrip())
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


INDENT = "  "
PLAIN = Looks()
NOT_KNOWN = "–"  # noqa: RUF001  the mark of what could not be looked at
_UNDER = 4  # what goes on below a line with a mark
_CARET = re.compile(r" *│ *(\^+ )?")
NOTHING_DECLARED = (
    "nothing is declared: write pipelines/*.sql or models/<schema>/*.sql (tidemill init makes an example)"
)


def say(line: str = "", *, err: bool = False, hang: int | None = None) -> None:
    """One line of prose: on a terminal no word is broken, and what follows is indented by `hang`, or as the line is."""
    indent = len(line) - len(line.lstrip(" "))
    for each in wrapped(line, cli.width(err=err), (indent or len(INDENT)) if hang is None else hang):
        cli.write(each, err=err)


def document(data: Any) -> None:
    """One JSON document on stdout."""
    cli.write(json.dumps(data, indent=2, ensure_ascii=False))


def error(problem: TidemillError, *, as_json: bool) -> None:
    """An error of ours: what happened, where, and what to do; on stdout as JSON, else on stderr."""
    if as_json:
        document({"error": error_data(problem)})
        return
    if isinstance(problem, FileErrors):
        for each in problem.errors:
            _excerpt(each)
        say(f"{problem.problem} · {problem.remedy}", err=True)
        return
    if isinstance(problem, FileError):
        _excerpt(problem)
        return
    say(f"{click.style(f'error[{problem.code}]', fg='red', bold=True)} {problem.problem}", err=True)
    for line in (problem.origin, problem.remedy):
        if line:
            say(f"{INDENT}{line}", err=True)


def _excerpt(problem: TidemillError) -> None:
    """An error in a file; on narrow terminals its remedy stays to the right of its caret."""
    for line in _red_head(excerpt(problem, cli.width(err=True))).splitlines():
        caret = _CARET.match(line)
        say(line, err=True, hang=len(caret[0]) if caret else None)


def _red_head(text: str) -> str:
    head, closing, rest = text.partition("]")
    return click.style(head + closing, fg="red", bold=True) + rest


def error_data(problem: TidemillError) -> dict[str, Any]:
    """The error as data; of several, each."""
    several = {"errors": [error_data(each) for each in problem.errors]} if isinstance(problem, FileErrors) else {}
    return several | {
        "code": problem.code,
        "problem": problem.problem,
        "remedy": problem.remedy,
        "origin": str(problem.origin) if problem.origin else None,
    }


def failed(name: str, problem: str, *, err: bool = False) -> None:
    """The line of a step that failed."""
    say(f"{INDENT}{click.style('✗', fg='red')} {click.style(name, bold=True)}  {problem}", err=err, hang=_UNDER)


def passed_over(name: str, why: str) -> None:
    """The line of a step that was not tried."""
    say(f"{INDENT}{click.style('-', dim=True)} {name}  {why}", hang=_UNDER)


def done(name: str, facts: Sequence[str], seconds: float, did: str = "") -> None:
    """The line of a step that went well. Facts that the terminal has no room for stand below the first."""
    head = f"{INDENT}{click.style('✓', fg='green')} {click.style(name, bold=True)}  {did}"
    for line in flowing(head, facts, duration(seconds), cli.width()):
        cli.write(line)


def judged(mark: str, text: str, *, err: bool = False) -> None:
    """A line with a mark: ✓ holds, ✗ does not, ! does not and may; others are neither."""
    colours = {"✓": "green", "✗": "red", "!": "yellow"}
    styled = click.style(mark, fg=colours.get(mark), dim=mark not in colours)
    say(f"{INDENT}{styled} {text}".rstrip(), err=err, hang=_UNDER)


def verdict(mark: str, name: str, fact: str, *, err: bool = False) -> None:
    """A line that says of a table how it is, as a sentence."""
    judged(mark, f"{click.style(name, bold=True)} {fact}", err=err)


def notice(text: str, *, err: bool = False) -> None:
    say(f"{INDENT}{click.style('notice', fg='yellow')}  {text}", err=err, hang=len("  notice  "))


def red(word: str) -> Callable[[str], str]:
    """What shows a word in red, wherever it stands in a text."""
    return lambda text: text.replace(word, click.style(word, fg="red"))


def last_name(table: str) -> str:
    """What a line calls a table that was given by its path: the last folder."""
    return table.rstrip("/").rpartition("/")[2]


def rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s"


def declared(
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    right: frozenset[str] = frozenset(),
    looks: Looks = PLAIN,
) -> None:
    """A line for each thing that a project declares, or how to declare one."""
    if lines:
        table(headings, lines, right=right, looks=looks)
    else:
        say(f"{INDENT}{NOTHING_DECLARED}")


def table(
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    right: frozenset[str] = frozenset(),
    looks: Looks = PLAIN,
) -> None:
    """Aligned columns, which fit the terminal; a column in which nothing stands is left out."""
    width = cli.width()
    found = laid(headings, lines, replace(looks, right=looks.right | right), width - len(INDENT) if width else None)
    for line in found.heading:
        cli.write(click.style(f"{INDENT}{line}", dim=True))
    for line in found.lines:
        cli.write(f"{INDENT}{line}")
    if found.left_out:
        left_out = f"no room for {', '.join(found.left_out)}: --format json has all"
        say(click.style(f"{INDENT}{left_out}", dim=True), hang=len(INDENT))


def coloured(text: str) -> str:
    """A text in which how something ended has the colour of that."""
    return _STATUS.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]]), text)


_COLOURS = {"ok": "green", "failed": "red", "different": "red", "interrupted": "yellow", "kept": "yellow"}
_STATUS = re.compile(rf"\b({'|'.join(_COLOURS)})\b")


def moment(at: str, today: date | None = None) -> str:
    """A moment of a log by the clock of the reader: "today 06:00", "2024-01-31 21:00"."""
    if not at:
        return ""
    local = datetime.fromisoformat(at).astimezone()
    today = today or datetime.now().astimezone().date()
    days = {today: "today", today - timedelta(days=1): "yesterday"}
    return f"{days.get(local.date(), local.date().isoformat())} {local:%H:%M}"


def ago(at: str, now: datetime) -> str:
    """How long a moment of a log lies back: "12 s ago", "5 min ago", "3 h ago", "2 days ago"."""
    seconds = max(int((now - datetime.fromisoformat(at)).total_seconds()), 0)
    for length, unit in _LENGTHS:
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


_LENGTHS = ((86_400, "days"), (3_600, "h"), (60, "min"))


LOGGER = logging.getLogger("tidemill")


class _Lines(logging.Handler):
    """Log records as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        word = record.levelname.lower()
        say(f"{word}  {record.getMessage()}", err=True)


def show_log(level: int) -> None:
    """Shows the logger `tidemill` from this level on; called again, only the level changes."""
    for handler in [handler for handler in LOGGER.handlers if isinstance(handler, _Lines)]:
        LOGGER.removeHandler(handler)
    LOGGER.addHandler(_Lines(level))
    LOGGER.setLevel(level)
