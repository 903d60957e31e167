"""The names that this process has given to tables in the catalog of its Spark, which all sessions of it share.

A name is given for the length of a run, counted, and taken away by the last run that uses it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Removing = Callable[[], None]

logger = logging.getLogger("tidemill")


_AT_WORK: ContextVar[tuple[NameUser, ...]] = ContextVar("runs whose steps this thread is in", default=())


@dataclass(frozen=True, eq=False)
class NameUser:
    """A run that uses names. `around` are the runs whose functions it was started from."""

    around: tuple[NameUser, ...] = field(default_factory=_AT_WORK.get)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """A run that is started meanwhile, by the code of a user, is inside of this one."""
        before = _AT_WORK.set((*self.around, self))
        try:
            yield
        finally:
            _AT_WORK.reset(before)


@dataclass
class _Name:
    """What it stands for, and in which runs; `remove` takes it out of the catalog, where it was put there by us."""

    meaning: str
    users: set[NameUser] = field(default_factory=set)
    given: bool = False
    remove: Removing | None = None


class Names:
    """Names and what they stand for. A run reserves all that it may need at once: no two can wait for each other."""

    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        self._changed = threading.Condition()

    def reserve(self, wanted: Mapping[str, str], user: NameUser) -> None:
        """Waits until each of these names stands for nothing else, and then counts this run among its users.

        A run around this one would wait for it in turn, so its names are an error.
        """
        with self._changed:
            while taken := self._taken(wanted):
                self._refuse_waiting(taken, user)
                told = ", ".join(taken)
                logger.info("waiting for another run of this process, which has other tables called %s", told)
                self._changed.wait(timeout=1)  # in pieces, so that an interrupt is heard
            for key, meaning in wanted.items():
                self._names.setdefault(key, _Name(meaning)).users.add(user)

    def give(self, key: str, make: Callable[[], Removing | None]) -> None:
        """Gives a reserved name, unless another run has done so. `make` returns how it is taken away again."""
        with self._changed:
            name = self._names[key]
            if not name.given:
                name.remove = make()
                name.given = True

    def release(self, keys: Iterable[str], user: NameUser) -> None:
        """Counts this run no longer among the users of these names; those that have none left are taken away."""
        with self._changed:
            for key in keys:
                name = self._names[key]
                name.users.discard(user)
                if not name.users:
                    del self._names[key]
                    with contextlib.suppress(Exception):  # Spark may have ended, and its catalog with it
                        (name.remove or _nothing)()
            self._changed.notify_all()

    def _taken(self, wanted: Mapping[str, str]) -> list[str]:
        return [key for key, meaning in wanted.items() if key in self._names and self._names[key].meaning != meaning]

    def _refuse_waiting(self, taken: Iterable[str], user: NameUser) -> None:
        held = sorted(key for key in taken if not self._names[key].users.isdisjoint(user.around))
        if held:
            raise ArgumentError(
                "table.name_in_use",
                f"The run whose function started this one has other tables called {', '.join(held)}: "
                "each would wait for the other.",
                "Run one project after the other, or use another schema in one of them.",
            )


def _nothing() -> None:
    pass


NAMES = Names()
