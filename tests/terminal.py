"""Commands on a terminal: what a person who watches has on the screen when they have ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyte

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

ROWS = 100  # tall: nothing scrolls out of sight
CTRL_C = b"\x03"
_TIMES = ((re.compile(r"\d+\.\d s\b"), "… s"), (re.compile(r"\b(today|yesterday) \d\d:\d\d"), "today …"))
_SPINNING = re.compile(r"[\u2800-\u28ff] (.*) \d:\d\d:\d\d")  # a spinner, what is being done, and a clock


@dataclass
class Seen:
    """What a terminal showed: the screen at the end, and the lines with a spinner that stood on it for a moment."""

    code: int
    screen: pyte.Screen
    displayed: set[str]

    @property
    def text(self) -> str:
        """The whole screen; how long things took is left out."""
        shown = "\n".join(line.rstrip() for line in self.screen.display).rstrip() + "\n"
        for pattern, instead in _TIMES:
            shown = pattern.sub(instead, shown)
        return shown

    def colour(self, word: str) -> str:
        """The colour in which the word stands where it comes first."""
        for number, line in enumerate(self.screen.display):
            if (column := line.find(word)) >= 0:
                return str(self.screen.buffer[number][column].fg)
        raise AssertionError(f"{word} is not on the screen")


def on_terminal(folder: Path, *args: str, columns: int, type_when: tuple[str, bytes] | None = None) -> Seen:
    """Runs `tidemill args` on a terminal of so many columns, until it ends.

    `type_when` is a line with a spinner to wait for, and the keys that are typed then.
    """
    return command_on_terminal([sys.executable, "-m", "tidemill.cli.main", *args], folder, columns, type_when)


def command_on_terminal(
    command: Sequence[str], folder: Path, columns: int, type_when: tuple[str, bytes] | None = None
) -> Seen:
    """Runs any command on a terminal of so many columns, until it ends."""
    with _terminal(command, folder) as (process, fd):
        _resize(fd, columns)
        screen, displayed = _watched(fd, columns, type_when)
        return Seen(process.wait(timeout=30), screen, displayed)


class WarmTerminal:
    """A terminal whose commands run one after another in one process: they share its engine."""

    def __init__(self, fd: int, commands: TextIO) -> None:
        self._fd, self._commands = fd, commands

    def __call__(self, folder: Path, *args: str, columns: int, type_when: tuple[str, bytes] | None = None) -> Seen:
        """Runs `tidemill args` in the folder; the terminal has so many columns from then on."""
        _resize(self._fd, columns)
        print(json.dumps([str(folder), args]), file=self._commands, flush=True)
        screen, displayed = _watched(self._fd, columns, type_when)
        return Seen(int(screen.title), screen, displayed)


@contextlib.contextmanager
def warm_terminal() -> Iterator[WarmTerminal]:
    theirs, ours = os.pipe()
    with _terminal([sys.executable, "-c", _SHELL, str(theirs)], fd=theirs) as (_, fd), os.fdopen(ours, "w") as commands:
        yield WarmTerminal(fd, commands)


_SHELL = """
import json, os, sys
from tidemill.cli.main import tidemill
for line in open(int(sys.argv[1])):
    folder, args = json.loads(line)
    os.chdir(folder)
    try:
        tidemill.main(args)
    except SystemExit as end:
        sys.stderr.flush()
        print(f"\\033]2;{end.code}\\a", end="", flush=True)  # the terminal's title
"""


@contextlib.contextmanager
def _terminal(
    command: Sequence[str], folder: Path | None = None, fd: int | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command, which has also this descriptor, and the other end of its terminal."""
    ours, theirs = os.openpty()
    _resize(ours, 80)
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**kept, "TERM": "xterm-256color"},
        pass_fds=() if fd is None else (fd,),
        preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509  nothing else makes it the terminal that sends Ctrl-C
    )
    for each in (theirs, *(() if fd is None else (fd,))):
        os.close(each)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _resize(fd: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))


def _watched(fd: int, columns: int, type_when: tuple[str, bytes] | None = None) -> tuple[pyte.Screen, set[str]]:
    """Until the terminal has a title, or nobody writes to it any more."""
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    displayed: set[str] = set()
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and not screen.title:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            given = os.read(fd, 65536)
        except OSError:  # the last one who could write has gone
            return screen, displayed
        stream.feed(given)
        displayed |= {found[1].rstrip() for line in _changed(screen) if (found := _SPINNING.fullmatch(line))}
        if type_when and type_when[0] in displayed:
            os.write(fd, type_when[1])
            type_when = None
    if screen.title:
        return screen, displayed
    raise AssertionError("\n".join(["the command does not end; on the screen:", *map(str.rstrip, screen.display)]))


def _changed(screen: pyte.Screen) -> list[str]:
    lines = ["".join(screen.buffer[n][m].data for m in range(screen.columns)).rstrip() for n in sorted(screen.dirty)]
    screen.dirty.clear()
    return lines
