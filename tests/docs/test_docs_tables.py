"""The guide to Python tables names every argument that a table can have, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tidemill import typing

GUIDE = (Path(__file__).parents[2] / "docs" / "python-tables.md").read_text()


def test_every_argument_of_a_table_is_explained():
    table = GUIDE[GUIDE.index("| argument |") :].partition("\n\n")[0]
    names = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert names == set(typing.TableArguments.__annotations__)
