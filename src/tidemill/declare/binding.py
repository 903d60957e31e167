"""A query whose tables are bound to what they are in one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Where = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Bound:
    """The text that goes to Spark; tables in `paths` are read by their path there, all others by their names."""

    text: str
    paths: frozenset[str] = frozenset()


Bind = Callable[[str, Where], Bound]


def by_name(text: str, path_of: Where) -> Bound:  # noqa: ARG001  as others do
    """Binds nothing: the query goes to Spark as it is."""
    return Bound(text)
