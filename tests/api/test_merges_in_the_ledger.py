"""A merge from Python is in the ledger of the project in whose folder it is called, like the command; else in none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from tidemill.ledger.past import past_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = [{"order_id": 1, "amount": 10}, {"order_id": 2, "amount": 20}]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own ledger; the current folder is a project's."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "tidemill.toml").touch()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_merge_in_the_folder_of_a_project_is_in_its_ledger(spark: SparkSession, state: Path) -> None:
    created = tidemill.merge(ORDERS, "lake/orders", on="order_id", spark=spark)
    changed = tidemill.merge([{"order_id": 2, "amount": 21}], "lake/orders", on="order_id", spark=spark)
    with pytest.raises(tidemill.TidemillError):
        tidemill.merge([{"order_id": None, "amount": 1}], "lake/orders", on="order_id", spark=spark)
    with pytest.raises(ValueError, match="columns"):
        tidemill.merge(ORDERS, "lake/orders", on="no_such_column", spark=spark)
    wrong, failed, second, first = past_runs(Path.cwd())
    assert {run.command for run in (wrong, failed, second, first)} == {"merge <list> lake/orders"}
    assert [(run.status, run.error_code) for run in (failed, second, first)] == [
        ("failed", "merge.null_keys"),
        ("ok", None),
        ("ok", None),
    ]
    (step,) = first.steps
    assert (step.mode, step.status, step.strategy, step.inserted) == ("first", "created", "merge upsert", 2)
    assert (step.path, step.version) == (str(Path.cwd() / "lake" / "orders"), created.version)
    (step,) = second.steps
    assert (step.mode, step.updated, step.rows_read, step.version) == ("incremental", 1, 1, changed.version)
    (step,) = failed.steps
    assert (step.status, step.error_code, step.rows_read) == ("failed", "merge.null_keys", None)
    assert step.error == "1 row has no order_id; keys cannot be NULL."
    assert not state.exists()


def test_a_merge_outside_of_projects_is_in_no_ledger(
    spark: SparkSession, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tidemill.merge(ORDERS, "lake/orders", on="order_id", spark=spark).inserted == 2
    assert not state.exists()
    assert not list(tmp_path.rglob("ledger.db"))
