"""What gives a table its rows: a source that is loaded, or a query over other tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.declare.sources import Source
    from tidemill.errors import Origin


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows of a source, as they are."""

    source: Source


@dataclass(frozen=True, slots=True)
class Query:
    """The rows of a query, which goes to Spark as written.

    `parameters` are its @names, `clock` tells that its rows may change though its inputs do not.
    """

    text: str
    origin: Origin | None = None
    parameters: tuple[str, ...] = ()
    clock: bool = False


Producer = Loaded | Query
