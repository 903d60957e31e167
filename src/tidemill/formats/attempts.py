"""Attempts at something with a table: one, while others may change it, and the one place that makes another.

Importing this imports PySpark.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ConflictError, FilesGoneError
from tidemill.formats.base import Conflict
from tidemill.formats.filesystem import writer_lock
from tidemill.spark.errors import file_is_gone
from tidemill.spark.session import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

logger = logging.getLogger("tidemill")

TRIES = 5
_FIRST_WAIT = 0.2


def with_retries(name: str, attempt: Callable[[int], T]) -> T:
    """What `attempt` gives; a `Conflict` of its is answered by another attempt, a few times."""
    for number in range(TRIES):
        try:
            return attempt(number)
        except Conflict as conflict:
            logger.info("%s: another writer committed first (%s); planning again", name, conflict)
            time.sleep(_FIRST_WAIT * 2**number)
    raise ConflictError(
        "run.conflict",
        f"Other writers changed {name}, or what it reads, {TRIES} times while this run was at work.",
        "Nothing of this run is in it. Run it again when the others have ended.",
    )


def look(path: str, reading: Callable[[], T]) -> T:
    """What `reading` gives, which takes no lock; it looks again where files went while it did."""

    def attempted(_: int) -> T:
        with attempting(path, 0):
            return reading()

    return with_retries(path, attempted)


@contextmanager
def attempting(path: str, attempt: int) -> Iterator[None]:
    """One attempt, from 0, at the table at a path. After a conflict the next one has it to itself, and cannot lose.

    A file that has gone since the table was looked at is a conflict. Where nobody else can have removed it, it is one
    that a frame of before wants, which the step was given: no other attempt would help.
    """
    turn = writer_lock(Path(os.path.normpath(path))) if attempt else nullcontext()  # as the store itself takes it
    try:
        with turn:
            yield
    except FilesGoneError as failure:
        if attempt and failure.is_of(path):
            raise
        raise Conflict(str(failure)) from failure
    except FileNotFoundError as failure:
        raise Conflict(str(failure)) from failure
    except SPARK_FAILURES as failure:
        if file_is_gone(failure):
            raise Conflict(f"files of {path} have gone since it was looked at") from failure
        raise
