"""Mistakes in models and their metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.declare.mistakes import FileError

if TYPE_CHECKING:
    from tidemill.declare.text import Span
    from tidemill.errors import ArgumentError


class ModelError(FileError):
    """One mistake in a model's SQL file or in its sidecar."""

    @classmethod
    def at(cls, span: Span, error: ArgumentError) -> ModelError:
        """The mistake that a declaration found in itself, shown where its author made it."""
        return cls(error.code, _inside(error.problem), _inside(error.remedy), span=span)


def _inside(sentence: str) -> str:
    """The sentence as a part of a line: texts beside a caret neither begin nor end like one."""
    return (sentence[:1].lower() + sentence[1:]).removesuffix(".")
