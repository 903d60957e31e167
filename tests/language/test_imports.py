"""Reading what users write needs no Spark and no terminal."""

from __future__ import annotations

import subprocess
import sys


def test_reading_pipelines_and_projects_loads_neither_spark_nor_the_terminal():
    asked = "import sys, tidemill.language, tidemill.project; print({'pyspark', 'click', 'rich'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_project_is_read_without_the_sql_parser():
    asked = "import sys, tidemill.project; print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
