"""The league's API, and an empty project that fetches from it."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from cli.conftest import cli  # noqa: F401
from hockey.api import Hockey, Project
from sources.conftest import api  # noqa: F401  the same server answers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def nhl(api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:  # noqa: F811
    api.answer = Hockey(date(2026, 2, 1))
    monkeypatch.setenv("HOCKEY", f"{api.url}/v1")
    return Project(tmp_path, api.answer)
