"""How much memory a merge takes as the change grows: only the profile of a change ever reaches Python."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

from merges import Claim
from stage import Stage, our_merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (50_000, 500_000, 5_000_000)


def growing_changes(stage: Stage) -> list[Claim]:
    """Peaks of the Python driver and of the JVM after each size, the smallest first."""
    python, jvm = [], []
    for size in SIZES:
        if size > stage.rows:
            break
        our_merge(stage.spark, stage.change("spread", 400, size), stage.copy(stage.ours, "ours_memory"))
        python.append(python_peak())
        jvm.append(jvm_peak(stage.spark))
    detail = ", ".join(
        f"{n:,} rows: {p:.0f} MB Python, {j:.0f} MB JVM" for n, p, j in zip(SIZES, python, jvm, strict=False)
    )
    return [
        Claim(
            "Python memory, largest change against smallest", python[-1] / python[0], 1.1, at_least=False, detail=detail
        )
    ]


def python_peak() -> float:
    """The peak of this process's resident memory in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def jvm_peak(spark: SparkSession) -> float:
    """The JVM's peak of resident memory in MB, as the kernel knows it."""
    bean = spark._jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{bean}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024
