"""Checks beside a model: bad rows never enter its table, and `tidemill test` finds those that are there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from delta_rows import delta_rows

from tidemill import TableChecks
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.cli.verify import ShownChecks
from tidemill.errors import ArgumentError
from tidemill.planning import Request
from tidemill.results import Checked, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution import Outcome

SOURCE = pa.schema(
    [
        ("id", pa.int64()),
        ("number", pa.string()),
        ("status", pa.string()),
        ("customer", pa.int32()),
        ("amount", pa.decimal128(10, 2)),
        ("updated_at", pa.timestamp("us", tz="UTC")),
    ]
)
ORDERS = """metadata = {
    "materialization": "incremental",
    "incremental": {"strategy": "merge", "merge": {"unique_key": "id", "time_column": "updated_at"}},
    "checks": [
        {"not_null": ["id", "Status"]},
        {"unique": "id"},
        {"unique": "number"},
        {"accepted_values": {"column": "status", "values": ["open", "paid"]}},
        {"relationships": {"column": "customer", "to": "my_schema.customers", "field": "id"}},
        {"row_count": {"min": 1, "max": 4}},
        "amount >= 0",
        {"condition": "amount < 1000", "severity": "warn", "name": "no order is that large"},
    ],
}
"""
MODELS = {
    "customers.sql": "SELECT explode(sequence(1, 3)) AS id\n",
    "orders.sql": "SELECT * FROM t_project.source_table\n",
    "orders.py": ORDERS,
    "large.sql": '-- metadata: {"materialization": "view", "checks": [{"row_count": {"max": 0}}]}\n'
    "SELECT * FROM my_schema.orders WHERE amount >= 1000\n",
    "report.sql": "SELECT count(*) AS n FROM my_schema.large\n",
}
FIRST = [(1, "A", "open", 1, 10, 1), (2, "B", "paid", 2, 20, 2), (3, None, "open", None, None, 3)]


def orders(*rows: tuple[Any, ...]) -> None:
    """The source, with rows of (id, number, status, customer, amount, hour)."""
    found = [(*row[:5], datetime(2024, 1, 1, row[5], tzinfo=UTC)) for row in rows]
    table = pa.Table.from_pylist([dict(zip(SOURCE.names, row, strict=True)) for row in found], schema=SOURCE)
    Path("data/source").mkdir(parents=True, exist_ok=True)
    pq.write_table(table, "data/source/orders.parquet")


def run(spark: SparkSession, *select: str) -> dict[str, Outcome]:
    done = Workspace.load(".").choose(select).run(spark)
    return {outcome.name.removeprefix("my_schema."): outcome for outcome in done.outcomes}


def held(spark: SparkSession) -> DataFrame:
    return spark.read.format("delta").load(str(Path("warehouse/my_schema/orders").absolute()))


def ids() -> list[int]:
    return sorted(row[0] for row in delta_rows("warehouse/my_schema/orders", "id"))


def cli(*args: str):
    return CliRunner().invoke(tidemill, list(args))


def test_a_project_without_checks_says_so_and_starts_no_spark(load, query):
    load({"orders.sql": query})
    code = (
        "import sys; from tidemill.cli.main import tidemill\n"
        "try: tidemill.main(['test'])\n"
        "finally: print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        '  no checks are declared: a model has them in its metadata, such as "checks": [{"not_null": "id"}]',
        "False",
    ]
    assert json.loads(cli("test", "--format", "json").stdout) == {"project": "shop", "ok": True, "tables": []}


def test_what_has_checks_is_known_without_spark_and_a_wrong_name_is_reported(load):
    assert [node.name for node in load(MODELS).checked] == ["my_schema.orders", "my_schema.large"]
    wrong = cli("test", "-s", "my_schema.order")
    assert (wrong.exit_code, "Did you mean my_schema.orders?" in wrong.stderr) == (2, True)


def test_the_command_has_a_line_for_each_check_and_quietly_only_for_those_that_fail(load, capsys):
    shop = load(MODELS)
    found = [
        TableChecks(
            "my_schema.orders", tuple(_made_up(check, n) for n, check in enumerate(shop.checked[0].checks[5:]))
        ),
        TableChecks("my_schema.large"),
        TableChecks("my_schema.large", error=ArgumentError("checks.bad_condition", "It is none.", "Correct it.")),
    ]
    place = "models/my_schema/orders.py"
    failed = (
        f"  ✗ my_schema.orders  amount >= 0{' ' * 39}1 of 9 rows makes it false: id=1\n"
        f"    {place}:11:9\n"
    )  # fmt: skip
    lost = "  ✗ my_schema.large  error[checks.bad_condition] It is none.\n    Correct it.\n"
    for lines in (True, False):
        shown = ShownChecks(shop, lines=lines, failures=True)
        for each in found:
            shown.show(each)
    printed = capsys.readouterr()
    assert printed.out == (
        f"  ✓ my_schema.orders  row_count(min 1, max 4){' ' * 27}9 rows\n"
        f"{failed}"
        f"  ! my_schema.orders  no order is that large{' ' * 28}2 of 9 rows make amount < 1000 false: id=1, id=2\n"
        f"    {place}:12:10\n"
        "  - my_schema.large  not there yet: tidemill run makes it\n"
        f"{lost}"
    )
    assert printed.err == failed + lost


def _made_up(check: Any, failures: int) -> Checked:
    samples = tuple(f"id={n + 1}" for n in range(failures))
    return Checked(check, Place("my_schema.orders", entering=False), 9, failures, samples)


def test_bad_rows_never_enter_and_what_is_there_already_is_found_by_the_command(spark: SparkSession, load):
    load(MODELS)
    orders(*FIRST)
    first = run(spark)
    assert [str(each.verdict) for each in first["orders"].result.checks] == ["passed"] * 8
    assert [each.rows for each in first["orders"].result.checks] == [3, None, 3, 3, 3, 3, 3, 3]
    assert [(each.verdict, each.rows) for each in first["large"].result.checks] == [("passed", 0)]

    orders(*FIRST, (4, "A", None, 1, 10, 4), (5, "E", "opne", 9, -5, 5), (6, "F", "paid", 3, 5000, 6))
    bad = run(spark, "my_schema.orders+")
    assert ids() == [1, 2, 3]
    assert (bad["large"].waits_for, bad["report"].waits_for) == ("my_schema.orders", "my_schema.large")
    place = "models/my_schema/orders.py"
    lines = bad["orders"].error.problem.splitlines()
    assert lines[0] == "7 of 8 checks of my_schema.orders failed:"
    assert [line.strip() for line in lines[1:]] == [
        f"not_null(id, status): 1 of 3 rows that would enter has no id or no status: id=4 status=NULL · {place}:5:10",
        f"unique(number): 1 value of number would occur more than once in my_schema.orders: 'A' · {place}:7:10",
        (
            "accepted_values(status): 1 of 3 rows that would enter has a value in status that is not accepted: "
            f"'opne' · {place}:8:10"
        ),
        (
            "relationships(customer → my_schema.customers.id): 1 of 3 rows that would enter has a value in customer "
            f"that my_schema.customers.id does not have: 9 · {place}:9:10"
        ),
        f"row_count(min 1, max 4): my_schema.orders would hold 6 rows after this commit, not 4 at most · {place}:10:10",
        f"amount >= 0: 1 of 3 rows that would enter makes it false: id=5 amount=-5.00 · {place}:11:9",
        (
            "no order is that large (warns only): 1 of 3 rows that would enter makes amount < 1000 false: "
            f"id=6 amount=5000.00 · {place}:12:10"
        ),
    ]

    orders((1, "B", "paid", 1, 11, 5), (2, "A", "paid", 2, 20, 5), FIRST[2], (6, "F", "paid", 3, 5000, 6))
    below = run(spark, "my_schema.orders+")
    mended = below["orders"].result  # two numbers change places: the rows that leave are not in the way
    assert (mended.counts.inserted, mended.counts.updated, ids()) == (1, 2, [1, 2, 3, 6])
    assert mended.notices == (
        "check no order is that large: 1 of 3 rows that would enter makes amount < 1000 false: id=6 amount=5000.00",
    )
    assert below["large"].error.problem == (
        "The check row_count(max 0) of my_schema.large failed: my_schema.large holds 1 row, not 0 at most."
    )
    assert str(below["large"].error.origin) == "models/my_schema/large.sql:1:54"
    assert below["report"].waits_for == "my_schema.large"
    assert run(spark, "my_schema.orders")["orders"].result.checks == ()

    orders((1, None, "lost", 1, 11, 5))
    refreshed = Workspace.load(".").choose(["my_schema.orders"]).run(spark, request=Request(full_refresh=True))
    assert refreshed.outcomes[0].error.problem == (
        "The check accepted_values(status) of my_schema.orders failed: 1 of 1 row that would enter has a value in "
        "status that is not accepted: 'lost'."
    )
    assert str(refreshed.outcomes[0].error.origin) == f"{place}:8:10"
    assert ids() == [1, 2, 3, 6]

    by_hand = held(spark).where("id = 1").write.format("delta").mode("append")
    by_hand.save(str(Path("warehouse/my_schema/orders").absolute()))
    text = cli("test")
    assert (text.exit_code, re.sub(r"(?<=\S) {2,}", "  ", text.output).splitlines()) == (
        1,
        [
            "  ✓ my_schema.orders  not_null(id, status)  5 rows",
            "  ✗ my_schema.orders  unique(id)  1 value of id occurs more than once in my_schema.orders: 1",
            f"    {place}:6:10",
            "  ✗ my_schema.orders  unique(number)  1 value of number occurs more than once in my_schema.orders: 'B'",
            f"    {place}:7:10",
            "  ✓ my_schema.orders  accepted_values(status)  5 rows",
            "  ✓ my_schema.orders  relationships(customer → my_schema.customers.id)  5 rows",
            "  ✗ my_schema.orders  row_count(min 1, max 4)  my_schema.orders holds 5 rows, not 4 at most",
            f"    {place}:10:10",
            "  ✓ my_schema.orders  amount >= 0  5 rows",
            "  ! my_schema.orders  no order is that large  1 of 5 rows makes amount < 1000 false: id=6 amount=5000.00",
            f"    {place}:12:10",
            "  ✗ my_schema.large  row_count(max 0)  my_schema.large holds 1 row, not 0 at most",
            "    models/my_schema/large.sql:1:54",
            "  9 checks · 4 passed · 4 failed · 1 warned",
        ],
    )
    document = json.loads(cli("test", "-s", "my_schema.large", "--format", "json").output)
    assert (document["ok"], document["tables"][0]["status"]) == (False, "failed")
    assert document["tables"][0]["checks"][0]["status"] == "failed"
