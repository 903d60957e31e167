"""Upkeep of a table's files in any format: what is asked for, and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidemill.spark.places import sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.model.cursor import Duration

Done = TypeVar("Done")


class OnSpark(Protocol):
    """Does work on a session, which it may have to start."""

    def __call__(self, work: Callable[[SparkSession], Done], /) -> Done: ...


@dataclass(frozen=True, slots=True)
class Compacted:
    """How many files were joined to how many; none where all are large enough."""

    joined: int
    written: int
    kept: int
    version: int


@dataclass(frozen=True, slots=True)
class VacuumRequest:
    """What a vacuum was asked for: how long removed files are retained, whether a short time is meant, whether to ask
    only what it would do.
    """

    retain: Duration | None = None
    confirmed: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The files of a Delta table that were removed, or would be; `bytes` is None where the store does not say."""

    files: int
    bytes: int | None
    retained_hours: float
    dry_run: bool

    @property
    def facts(self) -> list[str]:
        if not self.files:
            return ["nothing to remove"]
        size = "" if self.bytes is None else f" ({sized(self.bytes)})"
        files = f"1 file{size}" if self.files == 1 else f"{self.files:,} files{size}"
        days = f"{self.retained_hours / 24:g} days" if self.retained_hours >= 48 else f"{self.retained_hours:g} hours"  # noqa: PLR2004
        lost = f"versions that ended more than {days} ago cannot be restored"
        return [
            f"{files} would be removed" if self.dry_run else f"{files} removed",
            f"{lost} then" if self.dry_run else lost,
        ]


@dataclass(frozen=True, slots=True)
class Finished:
    """What interrupted runs had left in a dataset: a commit that was finished, attempts that were cleared."""

    finished_commit: int | None
    cleared: int
    bytes: int

    @property
    def facts(self) -> list[str]:
        done = [f"commit {self.finished_commit} finished"] if self.finished_commit is not None else []
        attempts = f"{self.cleared:,} interrupted attempt{'' if self.cleared == 1 else 's'} cleared"
        done += [f"{attempts} ({self.bytes:,} bytes)"] if self.cleared else []
        return done or ["whole, nothing to do"]
