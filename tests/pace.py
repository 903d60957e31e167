"""How fast this machine is: bounds of work are multiples of it, since seconds differ from machine to machine."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_LIBRARIES = (
    "import resource, click, pyarrow, sqlglot, sqlglot.dialects.spark, deltalake\n"
    "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime)"
)


@cache
def second() -> float:
    """CPU seconds that stand for one second: four times what importing the libraries of a command takes here."""
    command = [sys.executable, "-c", _LIBRARIES]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return 4 * min(float(run.stdout) for run in runs)
