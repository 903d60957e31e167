"""How things look on the terminal: the one place for marks, columns, colours, errors and JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import console, fitting
from tidemill.cli.fitting import flowing, wrapped
from tidemill.cli.tables import Looks, laid
from tidemill.declare.mistakes import FileErrors, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemill.errors import TidemillError

INDENT = "  "
PLAIN = Looks()
SEPARATOR = fitting.SEPARATOR
NOT_KNOWN = "–"  # noqa: RUF001  the mark of what could not be looked at
_UNDER = 4  # what goes on below a line with a mark
_CARET = re.compile(r" *│ *\^+ ")
NOTHING_DECLARED = (
    "nothing is declared: write pipelines/*.sql or models/<schema>/*.sql (tidemill init makes an example)"
)


def say(line: str = "", *, err: bool = False, hang: int | None = None) -> None:
    """One line of prose: on a terminal no word is broken, and what follows is indented by `hang`, or as the line is."""
    indent = len(line) - len(line.lstrip(" "))
    for each in wrapped(line, console.width(err=err), (indent or len(INDENT)) if hang is None else hang):
        console.write(each, err=err)


def document(data: Any) -> None:
    """One JSON document on stdout."""
    console.write(json.dumps(data, indent=2, ensure_ascii=False))


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
    say(f"{click.style(f'error[{problem.code}]', fg='red', bold=True)} {problem.problem}", err=True)
    for line in (problem.origin, problem.remedy):
        if line:
            say(f"{INDENT}{line}", err=True)


def _excerpt(problem: TidemillError) -> None:
    """An error in a file; on narrow terminals its remedy stays to the right of its caret."""
    for line in _red_head(excerpt(problem)).splitlines():
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
    for line in flowing(head, facts, duration(seconds), console.width()):
        console.write(line)


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
    width = console.width()
    found = laid(headings, lines, replace(looks, right=looks.right | right), width - len(INDENT) if width else None)
    for line in found.heading:
        console.write(click.style(f"{INDENT}{line}", dim=True))
    for line in found.lines:
        console.write(f"{INDENT}{line}")
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
