"""Work on Spark that Ctrl-C can end at once."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidemill.upkeep import OnSpark

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


def on_spark(profile: str | None) -> OnSpark:
    """Short work on the Spark that the project of the current folder names; Ctrl-C can end it."""
    from tidemill.cli.naming import spark_here  # noqa: PLC0415
    from tidemill.engine.session import session_for  # noqa: PLC0415  slow to import

    settings = spark_here(profile)

    def done(work: Callable[[SparkSession], T]) -> T:
        return interruptible(lambda: work(session_for(small=True, settings=settings)))

    return done


def _settle(done: Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except BaseException as failure:  # noqa: BLE001  it is raised where the work is waited for
        done.set_exception(failure)
