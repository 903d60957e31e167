"""Two processes that write to one table at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deltalake import write_deltalake
from formats.writer import rows_of
from support import events, held


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    """On a local disk Delta leaves it to chance whether two processes write one log entry; a lock of ours does not."""
    path = tmp_path / "events"
    write_deltalake(path, events((0, 0, "start")))
    tests = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(tests), "TIDEMILL_DRIVER_MEMORY": "1g"}
    command = [sys.executable, str(tests / "formats" / "writer.py"), str(path)]
    writers = [subprocess.Popen([*command, str(n)], env=environment) for n in (1, 2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert held(path) == [(0, 0.0, "start"), *rows_of(1), *rows_of(2)]
