"""How fast an API may be asked: a rate that all threads share, and pauses that count for all of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pace:
    """At most `rate` requests a second, evenly, whoever asks; without one nobody waits but for pauses."""

    def __init__(
        self,
        rate: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 1 / rate if rate else 0.0
        self._clock, self._sleep = clock, sleep
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Until it is the caller's turn."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next)
            self._next = turn + self._gap
        if turn > now:
            self._sleep(turn - now)

    def hold(self, seconds: float) -> None:
        """Nobody's turn comes before this pause is over: a server that is asked for one means all of us."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)
