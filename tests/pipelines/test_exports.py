"""Exports follow their inputs: what has not changed is not written, and an append adds nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.conftest import Shop

PIPELINE = """
SOURCE s TYPE CSV PARAMS { "path": "data/s.csv" };
LOAD raw FROM s MODE MERGE ON id;
EXPORT SELECT id, name FROM raw ORDER BY id TO "out/all.csv" TYPE CSV;
EXPORT SELECT id FROM raw ORDER BY id TO "out/log.csv" TYPE CSV MODE APPEND;
EXPORT raw TO "out/delta" TYPE DELTA MODE MERGE ON id;
"""
TARGETS = ("out/all.csv", "out/log.csv", "out/delta")


def statuses(shop: Shop) -> list[str]:
    outcomes = shop.run()
    return [outcomes[target].result.status for target in TARGETS]


def held(folder: Path) -> tuple[str, list[str], int]:
    log = (folder / "out/log.csv").read_text().split()
    return (folder / "out/all.csv").read_text(), log, deltalake.DeltaTable(folder / "out/delta").version()


def test_exports_are_written_when_what_they_read_or_left_has_changed_and_only_then(shop: Shop):
    shop.says(PIPELINE).data("s.csv", "id name", (1, "a"), (2, "b"))
    assert statuses(shop) == ["exported"] * 3
    first = held(shop.folder)
    assert first == ("id,name\n1,a\n2,b\n", ["id", "1", "2"], 0)
    assert statuses(shop) == ["up to date"] * 3
    assert held(shop.folder) == first

    (shop.folder / "out/all.csv").write_text("mine")
    (shop.folder / "out/log.csv").write_text("id\n0\n")
    assert statuses(shop) == ["exported", "up to date", "up to date"]
    assert held(shop.folder) == (first[0], ["id", "0"], 0)

    shop.data("s.csv", "id name", (1, "a"), (3, "c"))
    assert statuses(shop) == ["exported"] * 3
    assert held(shop.folder) == ("id,name\n1,a\n2,b\n3,c\n", ["id", "0", "1", "2", "3"], 1)


def test_an_export_of_the_clock_is_written_in_every_run(shop: Shop):
    shop.says(
        """
        SOURCE s TYPE CSV PARAMS { "path": "data/s.csv" };
        LOAD raw FROM s MODE MERGE ON id;
        EXPORT SELECT id FROM raw WHERE current_date() > DATE '2000-01-01' TO "out/all.csv" TYPE CSV;
        """
    ).data("s.csv", "id name", (1, "a"))
    for _ in range(2):
        assert shop.run()["out/all.csv"].result.status == "exported"
