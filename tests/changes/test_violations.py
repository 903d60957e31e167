"""A check becomes a condition in SQL, and its result a sentence; neither needs Spark."""

from __future__ import annotations

import pytest

from tidemill.changes.checks import violation
from tidemill.declarations import AcceptedValues, Holds, NotNull, Relationships, RowCount, Severity, Unique
from tidemill.errors import Origin
from tidemill.execution import worst
from tidemill.execution.checks import FailedChecksError, warnings
from tidemill.results import Checked, Place, Verdict

COMING, HERE = Place("shop.orders", entering=True), Place("shop.orders", entering=False)


@pytest.mark.parametrize(
    ("check", "sql"),
    [
        (NotNull(("id",)), "`id` IS NULL"),
        (NotNull(("id", "a `b`")), "`id` IS NULL OR `a ``b``` IS NULL"),
        (Holds("amount >= 0 -- or NULL"), "NOT coalesce((amount >= 0 -- or NULL\n), true)"),
    ],
)
def test_null_breaks_not_null_and_no_condition(check, sql):
    assert violation(check, {}) == sql


@pytest.mark.parametrize(
    ("kind", "values", "literals"),
    [
        ("string", ("it's", "a\\b", 1, True), "'it\\'s', 'a\\\\b', '1', 'true'"),
        ("varchar(10)", ("open",), "'open'"),
        (
            "int",
            (1, -2, 0.5, "3", "x", True),
            ("1, -2, 0.5, try_cast('3' AS int), try_cast('x' AS int), try_cast('true' AS int)"),
        ),
        ("decimal(10,2)", (0.125, float("nan")), "0.125, try_cast('nan' AS decimal(10,2))"),
        ("float", (0.1, 1), "try_cast('0.1' AS float), try_cast('1' AS float)"),
        ("boolean", (True,), "try_cast('true' AS boolean)"),
        ("date", ("2024-01-31",), "try_cast('2024-01-31' AS date)"),
    ],
)
def test_accepted_values_are_literals_of_the_column_and_one_that_cannot_be_accepts_nothing(kind, values, literals):
    sql = violation(AcceptedValues("s", values), {"s": kind})
    assert sql == f"`s` IS NOT NULL AND NOT coalesce(`s` IN ({literals}), false)"


@pytest.mark.parametrize(
    ("check", "rows", "failures", "samples", "text"),
    [
        (NotNull(("a", "b")), 10, 3, ("id=1 a=NULL",), "3 of 10 rows that would enter have no a or no b: id=1 a=NULL"),
        (
            AcceptedValues("s", ("x",)),
            2,
            1,
            ("'y'",),
            ("1 of 2 rows that would enter has a value in s that is not accepted: 'y'"),
        ),
        (Holds("a > 0"), 1_200, 2, (), "2 of 1,200 rows that would enter make it false"),
        (Holds("a > 0", name="positive"), 1, 1, (), "1 of 1 row that would enter makes a > 0 false"),
        (
            Relationships("c", "shop.customers", "id"),
            9,
            1,
            ("7",),
            ("1 of 9 rows that would enter has a value in c that shop.customers.id does not have: 7"),
        ),
        (Unique(("id",)), 9, 1, ("7",), "1 value of id would occur more than once in shop.orders: 7"),
        (
            Unique(("id", "r")),
            9,
            2,
            ("(7, 'eu')",),
            ("2 values of (id, r) would occur more than once in shop.orders: (7, 'eu')"),
        ),
        (RowCount(1, 5), 0, 1, (), "shop.orders would hold 0 rows after this commit, not 1 at least"),
        (RowCount(1, 5_000), 6_000, 1, (), "shop.orders would hold 6,000 rows after this commit, not 5,000 at most"),
    ],
)
def test_what_a_check_found_is_a_sentence_that_says_on_which_rows(check, rows, failures, samples, text):
    assert str(Checked(check, COMING, rows, failures, samples)) == text


def test_of_a_table_as_it_is_nothing_is_about_to_enter():
    assert str(Checked(NotNull(("a",)), HERE, 10, 1)) == "1 of 10 rows has no a"
    assert str(Checked(Unique(("id",)), HERE, 9, 1)) == "1 value of id occurs more than once in shop.orders"
    assert str(Checked(RowCount(most=1), HERE, 2, 1)) == "shop.orders holds 2 rows, not 1 at most"
    assert str(Checked(NotNull(("a",)), HERE, 1)) == "1 row"
    assert str(Checked(Unique(("id",)), COMING, None)) == ""
    assert str(Checked(NotNull(("a",)), HERE, 9, 7, ("1", "2"), more=True)) == "7 of 9 rows have no a: 1, 2, …"


def test_a_check_that_only_warns_never_fails():
    warning = Checked(Holds("a < 9", severity=Severity.WARN, name="small"), COMING, 3, 1, ("a=10",))
    assert warning.verdict is Verdict.WARNED
    assert Checked(Holds("a < 9"), COMING, 3, 1).verdict is Verdict.FAILED
    assert Checked(Holds("a < 9"), COMING, 3).verdict is Verdict.PASSED
    text = "check small: 1 of 3 rows that would enter makes a < 9 false: a=10"
    assert warnings([warning, Checked(Holds("b"), COMING, 3)]) == (text,)
    assert warning.to_json() == {
        "check": "small",
        "severity": "warn",
        "status": "warned",
        "rows": 3,
        "failures": 1,
        "samples": ["a=10"],
        "origin": None,
    }


def test_of_several_batches_the_worst_counts():
    good, bad, other = (Checked(NotNull((name,)), COMING, 1, n) for name, n in (("a", 0), ("a", 2), ("b", 1)))
    assert worst([good, other, bad, good]) == (bad, other)


def test_one_failed_check_is_an_error_at_its_place_and_several_stand_line_by_line():
    id_ = Checked(NotNull(("id",), origin=Origin("orders.py", 4, 6)), COMING, 10, 3, ("id=NULL at=7",))
    large = Checked(Holds("a < 9", severity=Severity.WARN, origin=Origin("orders.py", 5, 6)), COMING, 10, 1)
    ok = Checked(Unique(("id",)), COMING, 10)
    one = FailedChecksError("shop.orders", [ok, id_])
    assert str(one) == (
        "[checks.failed] The check not_null(id) of shop.orders failed: "
        "3 of 10 rows that would enter have no id: id=NULL at=7. "
        'Correct the rows or their query; with "severity": "warn" such rows enter, and are reported. '
        "shop.orders is unchanged."
    )
    assert (str(one.origin), one.checks, one.exit_code) == ("orders.py:4:6", (ok, id_), 1)
    several = FailedChecksError("shop.orders", [ok, large, id_])
    assert several.problem == (
        "2 of 3 checks of shop.orders failed:\n"
        "      not_null(id): 3 of 10 rows that would enter have no id: id=NULL at=7 · orders.py:4:6\n"
        "      a < 9 (warns only): 1 of 10 rows that would enter makes it false · orders.py:5:6"
    )
    assert several.origin is None
