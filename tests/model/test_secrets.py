"""Nothing that is shown or kept holds a secret."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tidemill.declarations import Masking
from tidemill.model import quoted_text


def masking(*secrets: str) -> Masking:
    return Masking(frozenset(secrets))


def test_every_secret_is_masked_wherever_it_stands():
    hidden = masking("hunter2", "s3cret").mask("user:hunter2@host?x=hunter2hunter2&y=s3cret")
    assert hidden == "user:***@host?x=******&y=***"


def test_a_secret_inside_a_longer_one_leaves_nothing_of_it():
    assert masking("pass", "password", "word-pass").mask("password word-pass") == "*** ***"


@pytest.mark.parametrize("spelled", [json.dumps, quoted_text, repr, lambda text: quote(text, safe="")])
def test_a_secret_is_masked_in_the_spelling_of_json_sql_python_and_urls(spelled):
    secret = "p'a\"s\\s wörd/${x}\n&"
    hidden = masking(secret).mask(f"before {spelled(secret)} after")
    assert hidden.strip("'\"") in {"before *** after", "before '***' after", 'before "***" after'}


def test_a_short_secret_is_masked_only_where_it_stands_alone():
    assert masking("a", "42").mask("a table has 42 rows; user=a, port 420, data") == (
        "*** table has *** rows; user=***, port 420, data"
    )


def test_no_secrets_and_empty_ones_change_nothing():
    assert masking().mask("text") == "text"
    assert masking("").mask("text") == "text"


def test_data_is_masked_without_becoming_something_else():
    data = {"user": "ann", "port": 5432, "nested": [{"url": "x://ann@y"}, True, None, 1.5], "5432": "k"}
    assert masking("ann", "5432").mask_data(data) == {
        "user": "***",
        "port": "***",
        "nested": [{"url": "x://***@y"}, True, None, 1.5],
        "***": "k",
    }


def test_python_does_not_show_them_either():
    assert "hunter2" not in repr(masking("hunter2"))
