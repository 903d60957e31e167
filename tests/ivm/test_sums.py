"""Rule S, where its state is not that of the inputs, or cannot be exact; on DuckDB."""

from __future__ import annotations

import duckdb
import pytest

from tidemill.ivm import Summed, analyse

TEXT = "SELECT k, count(*) AS n, count(v) AS c, avg(v) AS v FROM a GROUP BY k"


def summed() -> Summed:
    rules = analyse(TEXT, {"a": {"k": "int", "v": "int"}}).rules(frozenset({"a"}))
    return next(each for each in rules if isinstance(each, Summed))


@pytest.mark.parametrize(
    ("state", "impossible", "beyond"),
    [
        ("(1, 0, 0, 0, NULL, NULL), (NULL, 2, 1, 1, 9, 9)", 0, 0),
        ("(1, -1, 0, 0, NULL, NULL), (2, 2, 2, 2, 5, 5)", 1, 0),
        ("(1, 2, -1, -1, 5, 5)", 1, 0),
        ("(1, 2, 3, 3, 5, 5)", 1, 0),
        ("(1, 2, 2, 2, 5, 9007199254740992)", 0, 1),
        ("(1, 2, 1, 1, NULL, 9)", 0, 1),
    ],
)
def test_a_state_that_no_rows_have_or_that_is_not_exact_is_noticed(state: str, impossible: int, beyond: int) -> None:
    rule, connection = summed(), duckdb.connect()
    assert rule.state == ("k0", "n", "c1", "c2", "s2", "a2")
    connection.execute(f"CREATE TABLE state AS SELECT * FROM (VALUES {state}) t ({', '.join(rule.state)})")
    assert connection.execute(rule.impossible("state", dialect="duckdb")).fetchall() == [(impossible,)]
    assert connection.execute(rule.beyond("state", dialect="duckdb") or "").fetchall() == [(beyond,)]
