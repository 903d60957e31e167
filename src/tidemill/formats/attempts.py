"""One attempt at something with a table whose files others may remove meanwhile. Importing this imports PySpark."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import FilesGoneError
from tidemill.formats.base import Conflict
from tidemill.formats.filesystem import FOLDER, WriterLock
from tidemill.spark.errors import file_is_gone
from tidemill.spark.frames import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def attempting_alone(path: str, attempt: int) -> Iterator[None]:
    """One attempt at the table at a path. After a conflict the next one has it to itself, and cannot lose.

    A file that has gone since the table was looked at is a conflict. Where nobody else can have removed it, it is one
    that a frame of before wants, which the step was given: no other attempt would help.
    """
    file = Path(os.path.normpath(path)) / FOLDER / "lock"  # as the store itself takes it
    turn = WriterLock(file) if attempt else nullcontext()
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
