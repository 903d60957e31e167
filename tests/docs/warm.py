"""The documented commands in one process: `tidemill` on their PATH hands its arguments to an engine that runs already.

What a command does from cold on is tested in tests/cli; here it is about what it prints.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socketserver
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidemill.cli.main import tidemill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SHIM = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    line.sendall(json.dumps([os.getcwd(), sys.argv[1:]]).encode() + b"\\n")
    code, said = json.loads(line.makefile().readline())
for stream, text in said:
    getattr(sys, stream).write(text)
    getattr(sys, stream).flush()
sys.exit(code)
"""


class Warm:
    """Answers the `tidemill` in `folder` until it is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = socketserver.UnixStreamServer(str(folder / "line"), _Command)

    def __enter__(self) -> Self:
        command = self.folder / "tidemill"
        command.write_text(SHIM.format(python=sys.executable, address=str(self.folder / "line")))
        command.chmod(0o755)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Command(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        folder, args = json.loads(self.rfile.readline())
        answer = said(folder, lambda: _main(args))
        self.wfile.write(json.dumps(answer).encode() + b"\n")


def said(folder: str, work: Callable[[], int]) -> tuple[int, list[tuple[str, str]]]:
    """How a piece of work ended, and all that it printed: the stream and the text, in the order in which it did."""
    heard: list[tuple[str, str]] = []
    out, err = _Heard("stdout", heard), _Heard("stderr", heard)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _in(folder):
        code = work()
    return code, heard


class _Heard(io.StringIO):
    """A stream whose texts are kept together with those of another one."""

    def __init__(self, stream: str, heard: list[tuple[str, str]]) -> None:
        super().__init__()
        self._stream, self._heard = stream, heard

    def write(self, text: str) -> int:
        self._heard.append((self._stream, text))
        return len(text)


def _main(args: Sequence[str]) -> int:
    try:
        tidemill.main(list(args))
    except SystemExit as end:
        return int(end.code or 0)


@contextlib.contextmanager
def _in(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
