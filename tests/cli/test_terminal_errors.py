"""Errors in files on a terminal: no word is broken, and the remedy stays beside its caret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from terminal import on_terminal

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = {
    80: """\
error[models.syntax] the query cannot be parsed: ) is missing before FROM
  models/mart/daily.sql:2:1
    2 │ FROM orders
      │ ^^^^ correct it, or name its tables in the metadata: "reads":
             ["my_schema.orders"]
1 error · nothing was run
""",
    120: """\
error[models.syntax] the query cannot be parsed: ) is missing before FROM
  models/mart/daily.sql:2:1
    2 │ FROM orders
      │ ^^^^ correct it, or name its tables in the metadata: "reads": ["my_schema.orders"]
1 error · nothing was run
""",
}


LONG = {
    80: """\
error[language.unknown_option] CREATE MATERIALIZED VIEW has no option refesh
  p.sql:1:81
    1 │ …ption": "Revenue of the day", "refesh": "full" } AS SELECT 1 AS id, da…
      │                                ^^^^^^^^ did you mean refresh?
1 error · nothing was run
""",
    120: """\
error[language.unknown_option] CREATE MATERIALIZED VIEW has no option refesh
  p.sql:1:81
    1 │ …PTIONS { "description": "Revenue of the day", "refesh": "full" } AS SELECT 1 AS id, date('2024-01-01') AS day;
      │                                                ^^^^^^^^ did you mean refresh?
1 error · nothing was run
""",
    50: """\
error[language.unknown_option] CREATE MATERIALIZED
  VIEW has no option refesh
  p.sql:1:81
    1 │ …ption": "Revenue of the day", "refesh": …
      │                                ^^^^^^^^
      │ did you mean refresh?
1 error · nothing was run
""",
}


@pytest.mark.parametrize("columns", LONG)
def test_a_line_that_is_wider_than_the_terminal_is_cut_around_the_mistake(folder: Path, columns: int):
    options = '{ "description": "Revenue of the day", "refesh": "full" }'
    query = "SELECT 1 AS id, date('2024-01-01') AS day;\n"
    (folder / "p.sql").write_text(f"CREATE MATERIALIZED VIEW revenue OPTIONS {options} AS {query}")
    seen = on_terminal(folder, "validate", columns=columns)
    assert (seen.code, seen.text) == (2, LONG[columns])


@pytest.mark.parametrize("columns", SHOWN)
def test_a_mistake_in_a_model(folder: Path, columns: int):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "models/mart").mkdir(parents=True)
    (folder / "models/mart/daily.sql").write_text("SELECT day, sum(amount\nFROM orders\n")
    seen = on_terminal(folder, "validate", columns=columns)
    assert (seen.code, seen.text) == (2, SHOWN[columns])
