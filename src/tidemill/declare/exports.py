"""An export: rows of a query that leave the warehouse, as files or into a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tidemill.declare.producers import Query
    from tidemill.errors import Origin


@dataclass(frozen=True, slots=True)
class Export:
    """`mode` is replace, append or merge; `keys` are those of a merge. A relative `target` starts at `folder`."""

    name: str
    query: Query
    inputs: tuple[str, ...]
    target: str
    kind: str
    mode: str = "replace"
    keys: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    origin: Origin | None = None
    folder: Path | None = None
