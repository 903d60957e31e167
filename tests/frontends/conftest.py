"""A folder of pipeline files to read, and what was wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from tidemill.frontends.pipeline.files import read_pipelines
from tidemill.model import FileErrors, excerpt
from tidemill.model.project import Variables

if TYPE_CHECKING:
    from collections.abc import Container

    from tidemill.frontends.pipeline.declarations import Declared


class Reading(Protocol):
    def __call__(self, *files: str, known: Container[str] = (), **variables: dict[str, str]) -> Declared: ...


class Failing(Protocol):
    def __call__(self, *files: str, known: Container[str] = (), **variables: dict[str, str]) -> list[str]: ...


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.sql").write_text(text, encoding="utf-8", newline="")


@pytest.fixture
def read() -> Reading:
    """Writes shop.sql (and others by name), and reads it with these variables and no environment."""

    def run(text: str, *, known: Container[str] = (), files: dict[str, str] | None = None, **places: dict[str, str]):
        write(shop=text, **(files or {}))
        variables = Variables(**{"environment": {}, **places})
        return read_pipelines(["shop.sql"], variables, known=known)[0]

    return run


@pytest.fixture
def errors(read: Reading):
    """The same for files that are wrong: each error as a terminal shows it."""

    def run(text: str, **more) -> list[str]:
        with pytest.raises(FileErrors) as failure:
            read(text, **more)
        assert failure.value.exit_code == 2
        return [excerpt(error) for error in failure.value.errors]

    return run
