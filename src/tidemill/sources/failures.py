"""Whatever goes wrong while a source is read, as one error that names it and hides its secrets."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING

from tidemill.engine.translate import condition_of, one_line
from tidemill.errors import ArgumentError, ConnectorError, TidemillError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.declare.secrets import Masking
    from tidemill.declare.sources import Source
    from tidemill.errors import Origin

_UNKNOWN_KIND = "DATA_SOURCE_NOT_FOUND"


@contextlib.contextmanager
def failures_of(source: Source) -> Iterator[None]:
    """Errors that leave the block are `ConnectorError`s of this source, with its origin and without its secrets.

    Frames are lazy, so whoever computes one does it in such a block too. `ArgumentError`s stay what they are.
    """
    try:
        yield
    except Exception as failure:  # connectors may be anybody's
        told = _told(source, failure)
        if told is failure:
            raise
        raise told from _harmless(failure, source.masking)


def _told(source: Source, failure: Exception) -> Exception:
    masking = source.masking
    if isinstance(failure, TidemillError):
        return _hidden(failure, masking, source)
    if condition_of(failure) == _UNKNOWN_KIND:
        return unknown_kind(source)
    return ConnectorError(
        "source.unreadable",
        f"The source {source} could not be read: {masking.mask(said(failure))}",
        "Fix it, or its declaration, and run again.",
        origin=source.origin,
    )


def said(failure: Exception) -> str:
    """Spark's errors in one line; others with their class, because `KeyError: 'id'` says more than `'id'`."""
    if hasattr(failure, "java_exception") or hasattr(failure, "getCondition"):
        return one_line(failure)
    text = " ".join(str(failure).split())
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _hidden(failure: TidemillError, masking: Masking, source: Source) -> TidemillError:
    problem, remedy = masking.mask(failure.problem), masking.mask(failure.remedy)
    if isinstance(failure, ConnectorError) and f"source {source}" not in problem:
        problem = f"The source {source} could not be read: {problem}"
    return retold(failure, problem, remedy, source.origin)


def retold(failure: TidemillError, problem: str, remedy: str, origin: Origin | None) -> TidemillError:
    """The same error in other words; what it came from is dropped then, because it may hold the first ones."""
    failure.origin = failure.origin or origin
    if (problem, remedy) != (failure.problem, failure.remedy):
        failure.problem, failure.remedy = problem, remedy
        failure.args = (failure.code, problem, remedy)
        failure.__cause__, failure.__suppress_context__ = None, True
    return failure


def _harmless(failure: Exception, masking: Masking) -> Exception | None:
    """The error as a cause, for logs; none when its texts hold a secret."""
    whole = "".join(traceback.format_exception(failure))
    return failure if masking.mask(whole) == whole else None


def unknown_kind(source: Source) -> ArgumentError:
    from tidemill.sources.registry import known_kinds  # noqa: PLC0415  it imports this module

    known = known_kinds()
    close = did_you_mean(source.kind, known)
    return ArgumentError(
        "source.unknown_kind",
        f"{source.kind.upper()} is no kind of source that Tidemill or Spark knows.",
        f"Did you mean {close}?" if close else f"Use one of {', '.join(known)}, or the name of a Spark data source.",
        origin=source.origin,
    )
