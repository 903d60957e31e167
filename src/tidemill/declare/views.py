"""A view: a query by a name, whose rows are made when they are read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidemill.declare.checks import Check
    from tidemill.declare.producers import Query
    from tidemill.errors import Origin


@dataclass(frozen=True, slots=True)
class View:
    """It keeps no rows, so it has no strategy but its name for one, no window, and its query takes no @names.

    `path` is where a table of its name would be: its record stands beside it.
    """

    strategy: ClassVar[str] = "view"

    name: str
    path: str
    query: Query
    inputs: tuple[str, ...] = ()
    sql_hash: str | None = None
    origin: Origin | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def config_hash(self) -> str | None:
        """Changes when its checks do; their places do not count."""
        if not self.checks:
            return None
        parts = [replace(check, origin=None) for check in self.checks]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def through(names: Iterable[str], views: Mapping[str, View]) -> list[str]:
    """The names, and all that is read by the views among them: what is read before what reads it, each once.

    `views` are by their names in lower case, and do not read each other in a circle.
    """
    found: dict[str, str] = {}
    for name in names:
        view = views.get(name.lower())
        for each in (*(through(view.inputs, views) if view else ()), name):
            found.setdefault(each.lower(), each)
    return list(found.values())
