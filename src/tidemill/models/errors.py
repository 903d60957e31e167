"""Mistakes in models and their metadata."""

from __future__ import annotations

from tidemill.declare.mistakes import FileError


class ModelError(FileError):
    """One mistake in a model's SQL file or in its sidecar."""
