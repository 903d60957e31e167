"""A table's name is the same in all texts: without the schema that goes without saying."""

from __future__ import annotations

import logging

import pytest

from tidemill.errors import ArgumentError
from tidemill.model.mistakes import wording_of

WORDING = wording_of("main", ["main.orders", "main.orders_daily", "mart.report"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("main.orders reads main.orders_daily.", "orders reads orders_daily."),
        ("tidemill run -s main.orders --full-refresh", "tidemill run -s orders --full-refresh"),
        ("(main.orders), main.orders: mart.report", "(orders), orders: mart.report"),
        ("main.orders.id, main.orders_old, warehouse/main.orders, the.main.orders", None),
        ("`main`.`orders` in main.sql:3", None),
    ],
)
def test_names_of_the_projects_tables_are_short_and_nothing_else_changes(text: str, shown: str | None) -> None:
    assert WORDING.text(text) == (shown or text)


def test_what_is_logged_during_a_step_has_the_same_names_and_later_lines_are_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("tidemill")
    with caplog.at_level(logging.INFO, "tidemill"), WORDING.log():
        logger.info("%s: %s", "main.orders", "all rows")
    with caplog.at_level(logging.INFO, "tidemill"):
        logger.info("%s: %s", "main.orders", "all rows")
    assert caplog.messages == ["orders: all rows", "main.orders: all rows"]


def test_an_error_stays_the_same_error() -> None:
    error = ArgumentError("a.code", "main.orders is wrong.", "Look at main.orders.")
    with pytest.raises(ArgumentError) as raised, WORDING.errors():
        raise error
    assert raised.value is error
    assert str(error) == "[a.code] orders is wrong. Look at orders."
    assert error.args == ("a.code", "orders is wrong.", "Look at orders.")
