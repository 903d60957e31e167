"""Pipelines as in tests/pipelines, and the command line on the shared Spark."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cli.conftest import cli, folder  # noqa: F401
from pipelines.conftest import shop  # noqa: F401
