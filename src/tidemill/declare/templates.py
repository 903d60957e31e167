"""SQL of a user's in which @names stand for values that only a run knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.errors import Origin

WINDOW_PARAMETERS = ("start_dt", "end_dt", "start_date", "end_date")  # every window gives these


@dataclass(frozen=True, slots=True)
class Template:
    """`pieces` are its text, cut where `parameters` stand; there is one piece more than parameters."""

    pieces: tuple[str, ...]
    parameters: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As its author wrote it."""
        return self.put({name: f"@{name}" for name in self.parameters})

    def missing(self, known: Mapping[str, str]) -> list[str]:
        """The names that have no value, each once."""
        return [name for name in dict.fromkeys(self.parameters) if name not in known]

    def put(self, literals: Mapping[str, str]) -> str:
        """The text with SQL literals in the place of its @names, all of which are given."""
        values = [*(literals[name] for name in self.parameters), ""]
        return "".join(piece + value for piece, value in zip(self.pieces, values, strict=True))


@dataclass(frozen=True, slots=True)
class Condition(Template):
    """A condition on rows. Where it stands takes no part in comparisons, so that moving a line changes no table."""

    origin: Origin | None = field(default=None, repr=False, compare=False)
