"""Work on Spark that Ctrl-C can end at once."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def interruptible(work: Callable[[], T]) -> T:
    """Does the work in a thread of its own, so that Ctrl-C interrupts the waiting and not the work's connection.

    In the main thread PySpark answers Ctrl-C by a call on the connection that is busy, which breaks it; from here
    Spark can still be stopped in order.
    """
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # it logs what the stopped work runs into
    done: Future[T] = Future()
    threading.Thread(target=_settle, args=(done, work), name="tidemill-work", daemon=True).start()
    return done.result()


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except BaseException as failure:  # noqa: BLE001  it is raised where the work is waited for
        done.set_exception(failure)
