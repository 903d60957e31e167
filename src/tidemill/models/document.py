"""The metadata of one model as its author gave it, with the place of every key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.models.errors import ModelError

if TYPE_CHECKING:
    from tidemill.errors import ArgumentError
    from tidemill.models.places import Places


@dataclass
class Document:
    """A value that is yet to be checked; what is found wrong with it is noted in `errors`, at its place.

    `called` is what its author calls it, `spelling` how a key is written before its value.
    """

    value: object
    places: Places
    errors: list[ModelError] = field(default_factory=list)
    called: str = "metadata"
    spelling: str = '"{}": '

    def __post_init__(self) -> None:
        for key, span in self.places.repeated:
            self.errors.append(
                ModelError("models.repeated_key", f"{key} is given twice", "keep one of them", span=span)
            )

    def note(self, key: tuple[str | int, ...], code: str, problem: str, remedy: str) -> None:
        self.errors.append(ModelError(code, problem, remedy, span=self.places.at(*key)))

    def pass_on(self, key: tuple[str | int, ...], error: ArgumentError) -> None:
        """Notes what a declaration said of itself."""
        self.errors.append(ModelError.at(self.places.at(*key), error))
