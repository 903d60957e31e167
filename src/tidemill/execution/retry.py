"""The one place that tries again: when another writer committed first, the step is planned again."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeVar

from tidemill.errors import ConflictError
from tidemill.formats.base import Conflict
from tidemill.formats.registry import attempting_at

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

logger = logging.getLogger("tidemill")

TRIES = 5
_FIRST_WAIT = 0.2


def look(path: str, reading: Callable[[], T]) -> T:
    """What `reading` gives, which takes no lock; it looks again where files went while it did."""

    def attempted(_: int) -> T:
        with attempting_at(path, 0):
            return reading()

    return with_retries(path, attempted)


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
