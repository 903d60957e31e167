"""Reading what users write needs no Spark and no terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after this."""
    asked = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_reading_pipelines_and_projects_loads_neither_spark_nor_the_terminal():
    assert not {"pyspark", "click", "rich"} & loaded_by(
        "import tidemill.frontends.pipeline, tidemill.frontends.project"
    )


def test_a_project_is_read_without_the_sql_parser():
    assert "sqlglot" not in loaded_by("import tidemill.frontends.project")
