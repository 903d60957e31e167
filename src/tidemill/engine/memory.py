"""How much memory the embedded engine takes: a quarter of the machine's, at least 1 GiB and at most 4."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tidemill.errors import ArgumentError

VARIABLE = "TIDEMILL_DRIVER_MEMORY"
MIB_PER_GIB = 1024


def driver_memory(asked: str | None = None) -> str:
    """The heap of the driver as the JVM reads it (`2g`): as asked, as the environment says, or by size."""
    value = asked or os.environ.get(VARIABLE)
    if value is None:
        return f"{min(4 * MIB_PER_GIB, max(MIB_PER_GIB, machine_mib() // 4))}m"
    if not (found := re.fullmatch(r"(\d+)([kmgt])b?", value.strip().lower())):
        raise ArgumentError(
            "engine.driver_memory",
            f"{value!r} is not an amount of memory.",
            f"Give {VARIABLE} (or spark.driver.memory) as a number with m or g, such as 2g.",
        )
    return "".join(found.groups())


def machine_mib() -> int:
    """The memory of the machine, or of the container if that is less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (
        _limit("/sys/fs/cgroup/memory.max"),
        _limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    )
    return min(machine, *(limit or machine for limit in limits)) // (1024 * 1024)


def _limit(file: str) -> int | None:
    try:
        text = Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
