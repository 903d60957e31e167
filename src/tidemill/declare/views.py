"""A view: a query by a name, whose rows are made when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.declare.checks import Check
    from tidemill.declare.producers import Query
    from tidemill.errors import Origin


@dataclass(frozen=True, slots=True)
class View:
    """It keeps no rows, so it has no strategy and no window, and its query takes no @names.

    `path` is where a table of its name would be: its record stands beside it.
    """

    name: str
    path: str
    query: Query
    inputs: tuple[str, ...] = ()
    sql_hash: str | None = None
    origin: Origin | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
