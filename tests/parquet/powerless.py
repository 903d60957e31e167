"""Merges into datasets as somebody for whom permissions and limits count, also where root runs the tests.

What a process takes from its bounding set is gone once it starts another program: so it starts itself again, and the
Spark that it starts has no more rights than it has.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from pathlib import Path

import pyarrow as pa

import tidemill
from tidemill.errors import TidemillError
from tidemill.spark.session import embedded

LARGEST_FILE = 4 * 1024 * 1024
_DROP = 24  # PR_CAPBSET_DROP
_PASSING_OVER = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_AGAIN = "--again"


def give_up_rights() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    kernel = ctypes.CDLL(None)
    for right in _PASSING_OVER if sys.platform == "linux" else ():
        kernel.prctl(_DROP, right, 0, 0, 0)  # it fails where there is no such right to lose
    os.execv(sys.executable, [sys.executable, __file__, _AGAIN, *sys.argv[1:]])


def merged(path: Path, strategy: str) -> str:
    """What a merge of one row says."""
    rows, spark = pa.table({"id": [1], "v": ["new"], "day": [1]}), embedded(small=True)
    try:
        result = tidemill.merge(rows, path, on="id", strategy=strategy, spark=spark)
    except TidemillError as failure:
        return str(failure)
    return f"{result.updated} updated"


def told(path: Path, place: str, mode: int, strategy: str) -> tuple[str, bool]:
    """What a merge says while a place in the dataset has these permissions, and whether all files stay as they were."""
    at, before = path / place, content(path)
    usual = at.stat().st_mode
    at.chmod(mode)
    try:
        said = merged(path, strategy)
    finally:
        at.chmod(usual)
    return said, content(path) == before


def content(path: Path) -> dict[Path, bytes]:
    """All data files, and all that is staged."""
    return {file: file.read_bytes() for file in path.rglob("*.parquet")}


def main() -> None:
    if sys.argv[1] != _AGAIN:
        give_up_rights()
    cases = json.loads(sys.argv[2])
    print(json.dumps([told(Path(path), place, mode, strategy) for path, place, mode, strategy in cases]))


if __name__ == "__main__":
    main()
