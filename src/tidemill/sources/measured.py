"""How many bytes a source reads, as far as that is known."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.sources.protocol import Measured

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemill.declare.cursors import Cursor
    from tidemill.sources.protocol import Connector


def bytes_of(source: Connector, start: Cursor | None) -> int | None:
    """The size of the files that hold what is read from `start` on; no step fails because they cannot be measured."""
    if not isinstance(source, Measured):
        return None
    with suppress(TidemillError, OSError):
        return source.bytes_read(start)
    return None


def sum_of_known(numbers: Iterable[int | None]) -> int | None:
    """The sum of all of them; None where one is not known."""
    found = list(numbers)
    return None if None in found else sum(each or 0 for each in found)
