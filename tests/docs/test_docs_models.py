"""The guide to models names every key that metadata can have, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tidemill import typing

GUIDE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def rows(heading: str) -> set[str]:
    """The names in the first column of the table that starts with this heading."""
    table = GUIDE[GUIDE.index(f"| {heading} |") :].partition("\n\n")[0]
    return {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_every_key_of_metadata_is_explained():
    assert rows("key") == set(typing.ModelMetadata.__annotations__)


def test_every_setting_of_a_strategy_is_explained_where_it_belongs():
    strategies = ("Append", "Merge", "FullMerge", "DeleteInsert")
    settings = {name: set(getattr(typing, name).__annotations__) for name in strategies}
    assert rows("setting of a strategy") == set.union(*settings.values())
    table = GUIDE[GUIDE.index("| setting of a strategy |") :].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        _, names, *cells, _ = (cell.strip() for cell in line.split("|"))
        for name in re.findall(r"`(\w+)`", names):
            taken = [name in settings[strategy] for strategy in strategies]
            assert [bool(cell) for cell in cells[:4]] == taken, name
