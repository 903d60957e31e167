"""Pipelines as in tests/pipelines, and the command line on the shared Spark."""

from __future__ import annotations

from cli.conftest import cli, folder, make_table  # noqa: F401
from pipelines.conftest import shop  # noqa: F401
