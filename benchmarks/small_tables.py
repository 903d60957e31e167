"""Thirty small tables: a run in which one row of each source has changed, against the run that made all of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from cold import run_command, tidemill_command
from merges import Claim
from stage import seconds

if TYPE_CHECKING:
    from pathlib import Path

TABLES, ROWS = 30, 1_000
MODES = ("", "MODE MERGE ON id", "MODE FULL_MERGE ON id")


@dataclass(frozen=True)
class Project:
    """A project with as many CSV files as tables, each loaded in one of three modes."""

    folder: Path
    tables: int = TABLES
    rows: int = ROWS

    def build(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "pipelines").mkdir(parents=True)
        (self.folder / "tidemill.toml").write_text('name = "small"\n')
        self.write_sources(changed=-1)
        loads = [
            f'SOURCE s{n} TYPE CSV PARAMS {{ "path": "data/s{n}.csv" }};\n'
            f"LOAD t{n} FROM s{n} {MODES[n % len(MODES)]};\n"
            for n in range(self.tables)
        ]
        (self.folder / "pipelines" / "all.sql").write_text("".join(loads))

    def write_sources(self, changed: int) -> None:
        """All files again; in each, one row differs from the usual."""
        (self.folder / "data").mkdir(exist_ok=True)
        for n in range(self.tables):
            names = ("changed" if (row - n) % self.rows == changed else "name" for row in range(self.rows))
            lines = [f"{row},{name} {row},{row * 1.5},2024-01-01 10:00:00\n" for row, name in enumerate(names)]
            (self.folder / "data" / f"s{n}.csv").write_text("".join(["id,name,amount,updated_at\n", *lines]))

    def run(self) -> float:
        return seconds(run_command, [tidemill_command(), "run", str(self.folder)])


def one_row_changed(project: Project, repeat: int) -> list[Claim]:
    """The whole command, from a cold start, each time: on tables that Spark wrote, then on those that we rewrote."""
    first, changed, again = [], [], []
    for n in range(repeat):
        project.build()
        first.append(project.run())
        project.write_sources(changed=2 * n)
        changed.append(project.run())
        project.write_sources(changed=2 * n + 1)
        again.append(project.run())
    what = f"{project.tables} small tables, one row changed in each"
    return [_claim(what, first, changed), _claim(f"{what}, again", first, again)]


def _claim(what: str, first: list[float], changed: list[float]) -> Claim:
    detail = f"first run {median(first):.1f} s, changed {median(changed):.1f} s"
    return Claim(what, median(changed) / median(first), 0.7, at_least=False, detail=detail)
