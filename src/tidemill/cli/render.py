"""How things look on the terminal: the one place for marks, columns, colours, errors and JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tidemill.declare.mistakes import FileErrors, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidemill.errors import TidemillError

INDENT = "  "
SEPARATOR = " · "
NOT_KNOWN = "–"  # noqa: RUF001  the mark of what could not be looked at
NOTHING_DECLARED = (
    "nothing is declared: write pipelines/*.sql or models/<schema>/*.sql (tidemill init makes an example)"
)


def say(line: str = "", *, err: bool = False) -> None:
    """One line. Colours are for terminals, and not where NO_COLOR is set; a reader who left is no error."""
    try:
        click.echo(line, err=err, color=False if os.environ.get("NO_COLOR") else None)
    except BrokenPipeError:
        _talk_to_nobody(sys.stderr if err else sys.stdout)


def hush() -> None:
    """Whatever is still said is said to nobody: the command has ended."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        _talk_to_nobody(stream)


def document(data: Any) -> None:
    """One JSON document on stdout."""
    say(json.dumps(data, indent=2, ensure_ascii=False))


def error(problem: TidemillError, *, as_json: bool) -> None:
    """An error of ours: what happened, where, and what to do; on stdout as JSON, else on stderr."""
    if as_json:
        document({"error": error_data(problem)})
        return
    if isinstance(problem, FileErrors):
        for each in problem.errors:
            say(_red_head(excerpt(each)), err=True)
        say(f"{problem.problem} · {problem.remedy}", err=True)
        return
    say(f"{click.style(f'error[{problem.code}]', fg='red', bold=True)} {problem.problem}", err=True)
    for line in (problem.origin, problem.remedy):
        if line:
            say(f"{INDENT}{line}", err=True)


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
    say(f"{INDENT}{click.style('✗', fg='red')} {click.style(name, bold=True)}  {problem}", err=err)


def passed_over(name: str, why: str) -> None:
    """The line of a step that was not tried."""
    say(f"{INDENT}{click.style('-', dim=True)} {name}  {why}")


def done(name: str, facts: Iterable[str], seconds: float) -> None:
    """The line of a step that went well."""
    mark = click.style("✓", fg="green")
    say(f"{INDENT}{mark} {click.style(name, bold=True)}  {SEPARATOR.join(facts)}   {duration(seconds)}")


def judged(mark: str, text: str, *, err: bool = False) -> None:
    """A line with a mark: ✓ holds, ✗ does not, ! does not and may; others are neither."""
    colours = {"✓": "green", "✗": "red", "!": "yellow"}
    say(f"{INDENT}{click.style(mark, fg=colours.get(mark), dim=mark not in colours)} {text}".rstrip(), err=err)


def verdict(mark: str, name: str, fact: str, *, err: bool = False) -> None:
    """A line that says of a table how it is, as a sentence."""
    judged(mark, f"{click.style(name, bold=True)} {fact}", err=err)


def notice(text: str, *, err: bool = False) -> None:
    say(f"{INDENT}{click.style('notice', fg='yellow')}  {text}", err=err)


def rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s"


def declared(headings: Sequence[str], lines: Sequence[Sequence[str]], *, right: frozenset[str] = frozenset()) -> None:
    """A line for each thing that a project declares, or how to declare one."""
    if lines:
        table(headings, lines, right=right)
    else:
        say(f"{INDENT}{NOTHING_DECLARED}")


def table(headings: Sequence[str], lines: Sequence[Sequence[str]], *, right: frozenset[str]) -> None:
    """Aligned columns; a column in which nothing stands is left out."""
    kept = [n for n, _ in enumerate(headings) if any(line[n] for line in lines)]
    widths = {n: max(len(line[n]) for line in (headings, *lines)) for n in kept}

    def row(line: Sequence[str]) -> str:
        cells = [line[n].rjust(widths[n]) if headings[n] in right else line[n].ljust(widths[n]) for n in kept]
        return INDENT + INDENT.join(cells).rstrip()

    say(click.style(row(headings), dim=True))
    for line in lines:
        say(row(line))


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


def _talk_to_nobody(stream: Any) -> None:
    """What is still to be said to a closed pipe, by us or by Python at its end, goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
