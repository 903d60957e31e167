"""In a project, commands take a table by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from tidemill.cli.main import tidemill

if TYPE_CHECKING:
    import pytest
    from pipelines.conftest import Shop


def test_history_and_restore_take_the_name_of_a_table_of_the_project(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop.folder / "tidemill.toml").write_text('name = "shop"\n')
    shop.says('SOURCE s TYPE CSV PARAMS { "path": "data/s.csv" };\nLOAD t FROM s MODE MERGE ON id;')
    for rows in ([(1, "a")], [(1, "b"), (2, "c")]):
        shop.data("s.csv", "id v", *rows)
        shop.run()
    monkeypatch.chdir(shop.folder)
    shown = CliRunner().invoke(tidemill, ["history", "t"])
    assert [line.split()[0] for line in shown.output.splitlines()[1:]] == ["1", "0"]
    assert CliRunner().invoke(tidemill, ["restore", "main.t", "--to", "0"]).exit_code == 0
    assert shop.rows("t") == [(1, "a")]
