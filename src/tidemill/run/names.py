"""The names that this process has given to tables in the catalog of its Spark, which all sessions of it share.

A name is given for the length of a run, counted, and taken away by the last run that uses it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Removing = Callable[[], None]

logger = logging.getLogger("tidemill")


@dataclass
class _Name:
    """What it stands for, in how many runs; `remove` takes it out of the catalog, where it was put there by us."""

    meaning: str
    runs: int = 0
    given: bool = False
    remove: Removing | None = None


class Names:
    """Names and what they stand for. A run reserves all that it may need at once: no two can wait for each other."""

    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        self._changed = threading.Condition()

    def reserve(self, wanted: Mapping[str, str]) -> None:
        """Waits until each of these names stands for nothing else, and then counts this run among its users."""
        with self._changed:
            while taken := self._taken(wanted):
                logger.info("waiting for another run of this process, which has other tables called %s", taken)
                self._changed.wait(timeout=1)  # in pieces, so that an interrupt is heard
            for key, meaning in wanted.items():
                self._names.setdefault(key, _Name(meaning)).runs += 1

    def give(self, key: str, make: Callable[[], Removing | None]) -> None:
        """Gives a reserved name, unless another run has done so. `make` returns how it is taken away again."""
        with self._changed:
            name = self._names[key]
            if not name.given:
                name.remove = make()
                name.given = True

    def release(self, keys: Iterable[str]) -> None:
        """Counts this run no longer among the users of these names; those that have none left are taken away."""
        with self._changed:
            for key in keys:
                name = self._names[key]
                name.runs -= 1
                if not name.runs:
                    del self._names[key]
                    with contextlib.suppress(Exception):  # Spark may have ended, and its catalog with it
                        (name.remove or _nothing)()
            self._changed.notify_all()

    def _taken(self, wanted: Mapping[str, str]) -> str:
        return ", ".join(
            key for key, meaning in wanted.items() if key in self._names and self._names[key].meaning != meaning
        )


def _nothing() -> None:
    pass


NAMES = Names()
