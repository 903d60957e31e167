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


@pytest.mark.parametrize("columns", SHOWN)
def test_a_mistake_in_a_model(folder: Path, columns: int):
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    (folder / "models/mart").mkdir(parents=True)
    (folder / "models/mart/daily.sql").write_text("SELECT day, sum(amount\nFROM orders\n")
    seen = on_terminal(folder, "validate", columns=columns)
    assert (seen.code, seen.text) == (2, SHOWN[columns])
