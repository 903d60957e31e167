"""Queries that are never kept up to date incrementally, and changes that are not: each with the sentence it gets."""

from __future__ import annotations

import pytest

from tidemill.ivm import NotIncremental, analyse

_SCHEMA = {
    "a": {"k": "int", "v": "int", "f": "double", "day": "date", "tags": "array<string>"},
    "b": {"k": "int", "v": "int"},
    "names": {"name": "string collate utf8_lcase", "id": "int"},
    "maps": {"k": "int", "m": "map<string,int>"},
    "shop.orders": {"id": "bigint", "amount": "decimal(12,2)"},
}

QUERIES = {
    "SELECT k FROM a LIMIT 3": "LIMIT keeps only some of the rows",
    "SELECT k FROM a ORDER BY k LIMIT 3": "LIMIT keeps only some of the rows",
    "SELECT k FROM a OFFSET 3": "OFFSET drops some of the rows",
    "SELECT k FROM a TABLESAMPLE (10 PERCENT)": "TABLESAMPLE takes other rows each time",
    "SELECT * FROM a PIVOT (sum(v) FOR k IN (1, 2))": "PIVOT and UNPIVOT are not analysed",
    "SELECT k FROM a QUALIFY rank() OVER (ORDER BY v) = 1": "QUALIFY is not analysed; a subquery with WHERE is",
    "SELECT k FROM a VERSION AS OF 3": "it reads a fixed version of a table",
    "SELECT a.k FROM a, LATERAL (SELECT v FROM b WHERE b.k = a.k)": "LATERAL subqueries are not analysed",
    "WITH RECURSIVE r AS (SELECT k FROM a UNION ALL SELECT k + 1 FROM r) SELECT * FROM r": (
        "WITH RECURSIVE is not analysed"
    ),
    "SELECT k, sum(v) FROM a GROUP BY ROLLUP (k)": "GROUPING SETS, ROLLUP and CUBE are not analysed",
    "SELECT k, sum(v) FROM a GROUP BY k WITH CUBE": "GROUPING SETS, ROLLUP and CUBE are not analysed",
    "SELECT k, sum(v) FROM a GROUP BY GROUPING SETS ((k), ())": "GROUPING SETS, ROLLUP and CUBE are not analysed",
    "SELECT * FROM a NATURAL JOIN b": "NATURAL joins are not analysed",
    "SELECT a.k FROM (a JOIN b ON a.k = b.k) LEFT JOIN a c ON c.k = a.k": "joins in parentheses are not analysed",
    "SELECT id FROM range(10)": "table functions are not analysed",
    "SELECT 1 AS one": "it reads nothing",
    "SELECT k FROM a CLUSTER BY k": "CLUSTER BY is not analysed",
    "SELECT x FROM nowhere": "the columns of nowhere are not known",
    "SELECT nothing FROM a": "no table of the query has a column nothing",
    "WITH c AS (SELECT v FROM a) SELECT vv FROM c": "no table of the query has a column vv (did you mean v?)",
    "SELECT k FROM a, b": "it is not clear which column k is",
    "SELECT _metadata.file_path FROM a": "it is not clear which column file_path is",
    "SELECT a.k, b.k FROM a JOIN b ON a.k = b.k": "two of its columns are called k",
    "SELECT k FROM": "it cannot be parsed",
    "SELECT k FROM a; SELECT k FROM b": "it is not one query",
    "DELETE FROM a": "it is not one query",
    "SELECT k FROM a WHERE day >= current_date()": "current_date differs from run to run",
    "SELECT k FROM a WHERE rand() < 0.5": "rand differs from run to run",
    "SELECT k, current_user() AS who FROM a": "current_user differs from run to run",
    "SELECT k, my_function(v) AS m FROM a": "my_function is not known to give the same result for the same arguments",
    "SELECT k, input_file_name() AS f FROM a": (
        "input_file_name is not known to give the same result for the same arguments"
    ),
    "SELECT k, collect_list(v) AS l FROM a GROUP BY k": "the result of collect_list depends on the order of rows",
    "SELECT k, first(v) AS l FROM a GROUP BY k": "the result of first depends on the order of rows",
    "SELECT k, any_value(v) AS l FROM a GROUP BY k": "the result of any_value depends on the order of rows",
    "SELECT k FROM a WHERE v = ANY (SELECT v FROM b) COLLATE utf8_lcase": "COLLATE changes what is equal",
    "SELECT a.k, b.v FROM a FULL JOIN b ON a.k = b.k LEFT JOIN b c USING (v)": (
        "USING after a RIGHT or FULL JOIN is not analysed; ON is"
    ),
    "SELECT name FROM names": "a collation tells what is equal in name",
    "SELECT shop.orders.id FROM shop.orders": ("a column is named with its schema; an alias of the table is enough"),
}


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_that_is_refused(text: str) -> None:
    with pytest.raises(NotIncremental) as caught:
        analyse(text, _SCHEMA)
    assert caught.value.reason == QUERIES[text]


CHANGES = {
    "SELECT count(DISTINCT v) AS n FROM a": ("a", "groups need more than their changed rows"),
    "SELECT sum(f) AS s FROM a": ("a", "groups need more than their changed rows"),
    "SELECT k, rank() OVER (ORDER BY v) AS r FROM a": ("a", "windows need more than the changed rows"),
    "SELECT a.k FROM a LEFT JOIN b ON a.k < b.k": (
        "b",
        "a changed table stands on the padded side of an outer join",
    ),
    "SELECT k FROM a WHERE v > (SELECT avg(v) FROM b)": ("b", "a changed table stands in a subquery"),
    "SELECT k FROM a WHERE k NOT IN (SELECT k FROM b)": (
        "b",
        "one NULL in the rows of NOT IN changes its answer for all rows; NOT EXISTS is followed",
    ),
    "SELECT d.s FROM (SELECT k, sum(f) AS s FROM a GROUP BY k) d": (
        "a",
        "the last digits of a sum of floats may differ from run to run, and no output column is the key",
    ),
    "SELECT d.k % 2 AS m, d.n FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM a) d": (
        "a",
        "the order among ties may differ from run to run, and no output column is the key",
    ),
}


def test_rows_with_maps_are_not_counted() -> None:
    by_key = analyse("SELECT k, max(m['x']) AS x FROM maps GROUP BY k", _SCHEMA).rules(frozenset({"maps"}))
    assert {each.name for each in by_key} == {"local", "grouped"}
    view = analyse("SELECT x.m FROM maps x JOIN maps y ON x.k = y.k", _SCHEMA)
    assert all(term.name == "linear" for each in view.rules(frozenset({"maps"})) for term in each.terms)


def test_hints_are_left_out() -> None:
    view = analyse("SELECT /*+ BROADCAST(b) */ a.v FROM a JOIN b ON a.k = b.k", _SCHEMA)
    assert [each.table for each in view.occurrences] == ["a", "b"]
    assert "BROADCAST" not in view.text


@pytest.mark.parametrize("text", CHANGES)
def test_a_change_that_is_refused(text: str) -> None:
    table, reason = CHANGES[text]
    view = analyse(text, _SCHEMA)
    with pytest.raises(NotIncremental) as caught:
        view.rule(frozenset({table}))
    assert caught.value.reason == reason


def test_a_refusal_says_where() -> None:
    with pytest.raises(NotIncremental) as caught:
        analyse("SELECT k,\n       my_function(v) AS m\nFROM a", _SCHEMA)
    assert (caught.value.line, caught.value.column, caught.value.word) == (2, 8, "my_function")
    with pytest.raises(NotIncremental) as caught:
        analyse("SELECT k FROM a\nJOIN nowhere ON true", _SCHEMA)
    assert (caught.value.line, caught.value.column, caught.value.word) == (2, 6, "nowhere")
    with pytest.raises(NotIncremental) as caught:
        analyse("SELECT a.k\nFROM a\nWHERE a.vv > 1", _SCHEMA)
    assert (caught.value.line, caught.value.column, caught.value.word) == (3, 9, "vv")
    with pytest.raises(NotIncremental) as caught:
        analyse("SELECT k FROM a\nWHERE k NOT IN (SELECT k FROM b)", _SCHEMA).rule(frozenset({"b"}))
    assert (caught.value.line, caught.value.column, caught.value.word) == (2, 7, "k")


def test_the_text_of_a_block_has_nothing_of_the_queries_inside() -> None:
    query = "SELECT k FROM a WHERE k NOT IN (SELECT k FROM b) AND EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AND v > 1"
    assert analyse(query, _SCHEMA).blocks.text == "NOT k IN (…) and EXISTS(…) and v > 1"


def test_functions_that_the_user_vouches_for_are_taken() -> None:
    view = analyse("SELECT k, my_function(v) AS m FROM a", _SCHEMA, deterministic=frozenset({"My_Function"}))
    assert view.rule(frozenset({"a"})).name == "linear"


def test_a_bare_load_time_is_a_volatile_column() -> None:
    view = analyse("SELECT k, current_timestamp() AS loaded_at FROM a", _SCHEMA)
    assert view.volatile == ("loaded_at",)
    assert view.rule(frozenset({"a"})).name == "linear"


def test_lists_that_are_sorted_are_taken() -> None:
    view = analyse("SELECT k, sort_array(collect_list(v)) AS l FROM a GROUP BY k", _SCHEMA)
    assert view.rule(frozenset({"a"})).name == "local"


def test_the_tables_and_columns_that_a_query_uses() -> None:
    view = analyse("SELECT x.k, sum(o.Amount) AS s FROM A x JOIN shop.orders o ON x.k = o.id GROUP BY x.k", _SCHEMA)
    assert view.tables == ("a", "shop.orders")
    assert view.used("a") == ("k",)
    assert view.used("shop.orders") == ("id", "amount")
    assert [(each.number, each.table) for each in view.occurrences] == [(0, "a"), (1, "shop.orders")]
    assert "`shop`.`orders` AS `o`" in view.text
    assert (view.blocks.kind, view.blocks.text, view.blocks.tables) == ("aggregate", "by k", ("a", "shop.orders"))


def test_tables_that_the_query_does_not_read_are_no_change() -> None:
    with pytest.raises(ValueError, match="reads none of b"):
        analyse("SELECT k FROM a", _SCHEMA).rule(frozenset({"b"}))
