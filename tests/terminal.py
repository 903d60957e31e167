"""Commands on a terminal: what a person who watches has on the screen when they have ended."""

from __future__ import annotations

import fcntl
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
    from pathlib import Path

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


def on_terminal(folder: Path, *args: str, columns: int, type_when: tuple[str, bytes] | None = None, **env: str) -> Seen:
    """Runs `tidemill args` on a terminal of so many columns, until it ends.

    `type_when` is a line with a spinner to wait for, and the keys that are typed then.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemill.cli.main", *args],
        cwd=folder,
        env={**kept, "TERM": "xterm-256color", **env},
        preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509  nothing else makes it the terminal that sends Ctrl-C
    )
    os.close(theirs)
    try:
        screen, displayed = _watched(ours, columns, type_when)
        return Seen(process.wait(timeout=30), screen, displayed)
    finally:
        process.kill()
        os.close(ours)


def _watched(fd: int, columns: int, type_when: tuple[str, bytes] | None) -> tuple[pyte.Screen, set[str]]:
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    displayed: set[str] = set()
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
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
    raise AssertionError("\n".join(["the command does not end; on the screen:", *map(str.rstrip, screen.display)]))


def _changed(screen: pyte.Screen) -> list[str]:
    lines = ["".join(screen.buffer[n][m].data for m in range(screen.columns)).rstrip() for n in sorted(screen.dirty)]
    screen.dirty.clear()
    return lines
