"""Ctrl-C while Spark works: its jobs are cancelled, and the caller gets a KeyboardInterrupt and nothing else.

PySpark's own handler asks the JVM from within the call that it interrupts, which breaks the connection and
prints tracebacks instead of cancelling anything.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextlib.contextmanager
def handler_kept(cancel: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """What is started in the block may take SIGINT; afterwards it is the caller's again, after `cancel`.

    Where the caller's raises, the call that is under way is left by `leave`.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is not threading.main_thread():
        return
    if not callable(before):
        signal.signal(signal.SIGINT, before)
        return
    first = before

    def handler(number: int, frame: FrameType | None) -> None:
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it logs the calls that end now as errors
        # In a thread of its own, and so on a connection of its own.
        threading.Thread(target=_quietly, args=(cancel,), daemon=True).start()
        try:
            first(number, frame)
        except KeyboardInterrupt:
            _quietly(leave)
            raise

    logging.getLogger().addFilter(_not_of_an_interrupted_call)
    signal.signal(signal.SIGINT, handler)


def _quietly(work: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        work()


def _not_of_an_interrupted_call(record: logging.LogRecord) -> bool:
    """py4j logs an interrupted call as an error, with its traceback, straight to the root logger."""
    return record.module != "java_gateway"
