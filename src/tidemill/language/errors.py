"""Mistakes in pipeline files."""

from __future__ import annotations

from tidemill.declare.mistakes import FileError, FileErrors, excerpt, suggestion

__all__ = ["LanguageError", "LanguageErrors", "excerpt", "suggestion"]


class LanguageError(FileError):
    """One mistake in a pipeline file, or in a query."""


class LanguageErrors(FileErrors):
    """All mistakes of all pipeline files that were read together."""
