from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def fake_java(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a Java home whose `java` is a script that says it has the given version."""

    def make(version: str) -> Path:
        home = tmp_path / f"java-{version}"
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
        program.chmod(0o755)
        return home

    return make
