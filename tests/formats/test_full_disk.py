"""A full disk is reported as one, with the remedy, and what the failed write left is removed or named.

The disks are real: small file systems in memory, which a user namespace lets anybody mount.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
SMALL = ("new-delta", "delta", "new-parquet", "parquet", "exports", "home")


def test_a_full_disk_is_reported_and_what_the_write_left_is_removed_or_named(tmp_path: Path) -> None:
    disks, temp, free = tmp_path / "disks", tmp_path / "temp", tmp_path / "free"
    for folder in (*(disks / name for name in SMALL), temp, free):
        folder.mkdir(parents=True)
    mounts = [f"mount -t tmpfs -o size=2m none {shlex.quote(str(disks / name))}" for name in SMALL]
    mounts.append(f"mount -t tmpfs -o size=64m none {shlex.quote(str(temp))}")
    command = shlex.join([sys.executable, *(str(each) for each in (TESTS / "formats" / "full.py", disks, temp, free))])
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"{' && '.join(mounts)} && exec {command}"],
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "700m"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    found = json.loads(re.sub(r"[\d.]+ (B|kB|MB|GB)\b", "#", done.stdout.splitlines()[-1]))
    full = "No space left on device"

    def writing(name: str) -> str:
        place = disks / name / "orders"
        return (
            f"[disk.full] Writing to {place} failed: {full}: {place} has # free. "
            "Free some space there and run again. The table is as it was."
        )

    assert found["new delta"] == [writing("new-delta"), 0]
    assert found["new parquet"] == [writing("new-parquet"), 0]
    assert found["parquet"] == [writing("parquet"), 1, 1]
    said, files, commits = found["delta"]
    assert commits == 1
    left = "1 file" if files == 2 else f"{files - 1} files"
    assert said == (
        f"{writing('delta')} The write left {left} (#) that no commit refers to: tidemill vacuum "
        f"{disks}/delta/orders removes such files once they are old enough."
    )
    said, files = found["vacuum"]  # beside those of rows, deletion vectors and the like
    assert re.fullmatch(r"  ✓ orders  \d files \(#\) removed · versions that ended more than 0 hours ago .*\n", said)
    assert files == 1
    scratch = (
        f" failed: {full}: {temp} has # free. Free some space there (SPARK_LOCAL_DIRS, or "
        '"spark.local.dir" under [spark.conf], names another folder) and run again. The table is as it was.'
    )
    said, files = found["scratch"]
    assert said.startswith("[disk.full] ")
    assert said.endswith(scratch)
    assert files == 0
    assert found["exports"] == {
        kind: f"[disk.full] The export {place} to {place} failed: {full}: {place} has # free. "
        "Free some space there and run again. What was there is unchanged."
        for kind in ("csv", "parquet")
        if (place := disks / "exports" / kind)
    }
    assert found["jars"] == (
        f"[disk.full] Fetching Delta's jars failed: {full}: {disks}/home/jars has # free. "
        "Free some space there and run again. TIDEMILL_HOME names another folder."
    )
