"""Checks are declared in metadata much as dbt's tests are, and say what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.api.workspace import Workspace
from tidemill.declarations import AcceptedValues, Holds, NotNull, Relationships, RowCount, Severity, Unique
from tidemill.errors import ArgumentError

CHECKS = """
metadata = {"checks": [
    {"not_null": ["id", "day"]},
    {"unique": "id", "severity": "warn"},
    {"accepted_values": {"column": "status", "values": ["open", 1, 0.5, True]}},
    {"relationships": {"column": "customer", "to": "customers", "field": "id"}, "name": "customers are known"},
    {"relationships": {"column": "id", "to": "customers"}},
    {"row_count": {"min": 1, "max": 10}},
    "amount >= 0",
    {"condition": "amount < 100 OR status = '@x'", "severity": "warn"},
]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tidemill.toml").touch()
    Path("models/shop").mkdir(parents=True)
    Path("models/shop/orders.sql").write_text("SELECT 1 AS id, day, status, customer, amount FROM main.customers\n")
    Path("warehouse/main/customers/_delta_log").mkdir(parents=True)
    return tmp_path


def test_every_kind_of_check_is_read():
    Path("models/shop/orders.py").write_text(CHECKS)
    (table,) = Workspace.load(".").tables
    assert table.checks == (
        NotNull(("id", "day")),
        Unique(("id",), severity=Severity.WARN),
        AcceptedValues("status", ("open", 1, 0.5, True)),
        Relationships("customer", "main.customers", "id", name="customers are known"),
        Relationships("id", "main.customers", "id"),
        RowCount(1, 10),
        Holds("amount >= 0", ("amount",)),
        Holds("amount < 100 OR status = '@x'", ("amount", "status"), severity=Severity.WARN),
    )
    assert [str(check) for check in table.checks] == [
        "not_null(id, day)",
        "unique(id)",
        "accepted_values(status)",
        "customers are known",
        "relationships(id → main.customers.id)",
        "row_count(min 1, max 10)",
        "amount >= 0",
        "amount < 100 OR status = '@x'",
    ]
    assert [check.columns for check in table.checks][2:6] == [("status",), ("customer",), ("id",), ()]
    assert str(table.checks[1].origin) == "models/shop/orders.py:4:6"
    assert table.inputs == ("main.customers",)


def test_a_check_decides_no_rows_and_so_changes_no_hash():
    (before,) = Workspace.load(".").tables
    Path("models/shop/orders.py").write_text(CHECKS)
    (after,) = Workspace.load(".").tables
    assert before.config_hash == after.config_hash


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (RowCount, "[checks.bad_check] row_count has neither min nor max. Give one of them, or both."),
        (
            lambda: RowCount(5, 2),
            "[checks.bad_check] row_count has a min of 5, above its max of 2. Turn them around.",
        ),
        (lambda: AcceptedValues("a", ()), "[checks.bad_check] accepted_values has no values. Name at least one."),
    ],
)
def test_a_check_that_cannot_be_is_not_made(make, message):
    with pytest.raises(ArgumentError) as failure:
        make()
    assert str(failure.value) == message
