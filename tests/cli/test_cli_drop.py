"""`tidemill drop`: a table leaves for good, and those whose history is to be kept stay."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2, 3]})
KEPT = "pipelines.reset.allowed"


@pytest.fixture
def shop(folder: Path, make_table) -> Path:
    """A project that declares two tables, of which one is to be kept; a third is in the warehouse only."""
    (folder / "tidemill.toml").write_text('name = "shop"\n')
    models = folder / "models" / "shop"
    models.mkdir(parents=True)
    for name in ("orders", "stats"):
        (models / f"{name}.sql").write_text("SELECT 1 AS id")
        make_table(f"shop.{name}", ROWS, counts={"inserted": 3})
    (models / "stats.py").write_text('metadata = {"reset_allowed": False}\n')
    make_table("shop.orders_of_2025", ROWS, counts={"inserted": 3})
    return folder


def properties(path: Path, **given: str) -> None:
    deltalake.DeltaTable(path).alter.set_table_properties(given, raise_if_not_exists=False)


def test_a_confirmed_drop_removes_the_table_and_is_in_the_ledger(shop: Path, cli):
    told = cli("drop", "shop.orders", "--confirm")
    assert (told.exit_code, told.stdout) == (0, "  ✓ shop.orders  dropped · 3 rows\n"), told.stderr
    told = cli("drop", "warehouse/shop/orders_of_2025", "--confirm", "--format", "json")
    assert json.loads(told.stdout)["rows"] == 3
    assert sorted(each.name for each in (shop / "warehouse" / "shop").iterdir()) == ["stats"]
    with closing(sqlite3.connect(shop / ".tidemill" / "ledger.db")) as ledger:
        steps = ledger.execute("SELECT table_name, status FROM steps ORDER BY step_id").fetchall()
    assert steps == [("shop.orders", "dropped"), ("warehouse/shop/orders_of_2025", "dropped")]


@pytest.mark.usefixtures("shop")
def test_a_command_that_was_called_wrongly_is_no_failed_run_of_the_table(cli):
    cli("drop", "shop.orders", "--confirm")
    for wrong in (("drop", "shop.orders", "--confirm"), ("merge", "gone.csv", "warehouse/shop/orders", "--on", "id")):
        assert cli(*wrong).exit_code == 2
    tables = json.loads(cli("status", "--format", "json").stdout)["tables"]
    assert [(each["table"], each["last_status"]) for each in tables] == [
        ("shop.orders", "dropped"),
        ("shop.stats", None),
    ]


@pytest.mark.usefixtures("shop")
def test_where_nobody_can_be_asked_a_drop_has_to_be_confirmed(cli):
    told = cli("drop", "shop.orders")
    assert told.exit_code == 2
    assert told.stderr.splitlines() == [
        "error[drop.not_confirmed] Dropping shop.orders with 3 rows cannot be undone, and nobody is there to be asked.",
        "  Say --confirm. A copy to go back to: tidemill backup shop.orders",
    ]


def test_on_a_terminal_a_drop_is_asked_for(shop: Path):
    def answered(answer: bytes) -> str:
        terminal, end = pty.openpty()
        os.write(terminal, answer)
        command = [sys.executable, "-m", "tidemill.cli.main", "drop", "shop.orders"]
        done = subprocess.run(command, cwd=shop, stdin=end, capture_output=True, text=True, check=False)
        os.close(end)
        os.close(terminal)
        return done.stdout + done.stderr

    question = "Drop shop.orders with 3 rows? It cannot be undone. [y/N]: "
    declined = "error[cli.declined] You said no, and nothing was changed.\n  To go on, answer y.\n"
    assert answered(b"n\n") == f"{question}{declined}"
    assert (shop / "warehouse" / "shop" / "orders").exists()
    with closing(sqlite3.connect(shop / ".tidemill" / "ledger.db")) as ledger:
        assert ledger.execute("SELECT error_code FROM runs").fetchall() == [("cli.declined",)]
        assert ledger.execute("SELECT count(*) FROM steps").fetchone() == (0,)
    assert answered(b"y\n") == f"{question}  ✓ shop.orders  dropped · 3 rows\n"


@pytest.mark.parametrize("written", ["shop.ordres", "warehouse/shop/ordres"])
def test_a_misspelled_table_is_neither_dropped_copied_nor_restored(shop: Path, cli, written: str):
    table = f"at {written}" if "/" in written else written
    meant = f"error[table.missing] There is no table {table}.\n  Did you mean {written.replace('ordres', 'orders')}?\n"
    for command in (("drop", "--confirm"), ("backup",), ("restore", "--to", "0")):
        told = cli(command[0], written, *command[1:])
        assert (told.exit_code, told.stderr) == (2, meant)
    copy = cli("restore", "shop.orders", "--from", "shop.orders_of_2052")
    assert (copy.exit_code, copy.stderr.splitlines()[1]) == (2, "  Did you mean shop.orders_of_2025?")
    (shop / "models/shop/not_made.sql").write_text("SELECT 1 AS id")
    assert cli("backup", "shop.not_mad").stderr.endswith("Did you mean shop.not_made?\n")
    nothing = cli("drop", "shop.payments", "--confirm").stderr
    assert nothing == (
        f"error[table.missing] There is no table shop.payments.\n  Nothing is at {shop}/warehouse/shop/payments.\n"
    )


def test_a_profile_says_whose_table_is_dropped(shop: Path, cli):
    (shop / "tidemill.toml").write_text('name = "shop"\n[profiles.prod.warehouse]\npath = "lake"\n')
    deltalake.write_deltalake(shop / "lake" / "shop" / "orders", ROWS)
    assert cli("drop", "shop.orders", "--confirm", "--profile", "prod").exit_code == 0
    assert not (shop / "lake" / "shop" / "orders").exists()
    assert (shop / "warehouse" / "shop" / "orders").exists()


@pytest.mark.parametrize("name", ["shop.stats", "warehouse/shop/stats"])
def test_a_table_declared_to_be_kept_is_not_dropped_by_its_name_or_its_path(shop: Path, cli, name: str):
    told = cli("drop", name, "--confirm")
    assert told.exit_code == 1
    assert told.stderr.splitlines() == [
        f"error[table.reset_refused] {name} is declared reset_allowed = false: 3 rows of history would be dropped.",
        "  models/shop/stats.sql:1:1",
        f"  Take a backup (tidemill backup {name}), then set reset_allowed to true where it is declared.",
    ]
    assert (shop / "warehouse" / "shop" / "stats").exists()


def test_a_table_that_says_so_itself_is_not_dropped(shop: Path, cli):
    properties(shop / "warehouse" / "shop" / "orders", **{KEPT: "false"})
    told = cli("drop", "shop.orders", "--confirm")
    assert told.exit_code == 1
    assert f"shop.orders has the property {KEPT} = false: 3 rows of history would be dropped." in told.stderr
    assert (
        "then set that property to true: where it is declared, followed by a run, or with ALTER TABLE." in told.stderr
    )
    properties(shop / "warehouse" / "shop" / "orders", **{KEPT: "true"})
    assert cli("drop", "shop.orders", "--confirm").exit_code == 0


def test_a_table_that_was_declared_to_be_kept_is_not_dropped_when_its_declaration_is_gone(shop: Path, cli):
    properties(shop / "warehouse" / "shop" / "orders_of_2025", **{"tidemill.reset_allowed": "false"})
    told = cli("drop", "shop.orders_of_2025", "--confirm")
    assert told.exit_code == 1
    assert "shop.orders_of_2025 was declared reset_allowed = false" in told.stderr
    assert "declare it with reset_allowed = true and run it once." in told.stderr
