"""Queries that broke an earlier wording of the rules, and pitfalls of others: each rule that is offered has to hold."""

from __future__ import annotations

from typing import Any

import pytest
from duck import Duck, Rows, same

from tidemill.ivm import NotIncremental, ViewQuery, analyse

_KV = {"k": "int", "v": "int"}
_XY = {"x": "int", "y": "int"}
_K = {"k": "int"}


def refreshed(
    text: str,
    schema: dict[str, dict[str, str]],
    before: dict[str, Rows],
    come: dict[str, Rows] | None = None,
    go: dict[str, Rows] | None = None,
) -> set[str]:
    """The names of the rules that are offered; each was compared with the full query."""
    view = analyse(text, schema)
    duck = Duck(schema, {each: before.get(each, []) for each in schema})
    held = duck.full(text)
    changed = duck.change(come or {}, go or {})
    full = duck.full(text)
    rules = view.rules(changed)
    for rule in rules:
        assert same(duck.refreshed(rule, held, view.output), full), (rule.name, rule.key)
    return {each.name for each in rules}


def on_of(view: ViewQuery, *changed: str) -> set[tuple[str, ...]]:
    return {each.on for each in view.rules(frozenset(changed))}


def test_a_padded_column_in_the_output_is_no_key() -> None:
    schema = {"a": _KV, "b": _K}
    text = "SELECT b.k, a.v FROM a LEFT JOIN b ON a.k = b.k"
    assert refreshed(text, schema, {"a": [(1, 10)]}, {"b": [(1,)]})
    assert on_of(analyse(text, schema), "b") == {()}


def test_a_column_padded_in_an_inner_block_groups_nothing_by_key() -> None:
    schema = {"a": _K, "b": _K}
    text = "SELECT d.k, count(*) AS n FROM (SELECT b.k FROM a LEFT JOIN b ON a.k = b.k) d GROUP BY d.k"
    assert refreshed(text, schema, {"a": [(1,), (2,)]}, {"b": [(1,)]}) == {"grouped", "summed"}


def test_an_outer_on_equates_no_two_kept_columns() -> None:
    schema = {"a": _XY, "b": _K}
    text = "SELECT a.y, count(*) AS n FROM a LEFT JOIN b ON a.x = b.k AND a.y = b.k GROUP BY a.y"
    assert refreshed(text, schema, {"a": [(1, 2), (2, 2)]}, {"a": [(1, 2)]})
    assert all("x" not in each.key for each in analyse(text, schema).rules(frozenset({"a"})) if each.name == "local")


def test_a_column_of_a_padded_source_ties_no_further_source() -> None:
    schema = {"a": _K, "b": _K, "c": _K}
    text = "SELECT a.k, c.k AS ck FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.k <=> c.k"
    refreshed(text, schema, {"a": [(1,)]}, {"c": [(None,)]})


@pytest.mark.parametrize("test", ["NOT (a.k IN (SELECT k FROM b))", "a.k NOT IN (SELECT k FROM b)"])
def test_a_null_in_not_in_reaches_all_rows(test: str) -> None:
    refreshed(f"SELECT a.k, a.v FROM a WHERE {test}", {"a": _KV, "b": _K}, {"a": [(1, 1), (2, 2)]}, {"b": [(None,)]})


def test_null_is_a_key_like_others() -> None:
    text = "SELECT k, sum(v) AS s FROM a GROUP BY k"
    before = {"a": [(None, 1), (None, 2), (1, 5)]}
    assert "local" in refreshed(text, {"a": _KV}, before, {"a": [(None, 7)]}, {"a": [(None, 1)]})


def test_an_unchanged_branch_of_union_all_counts_once() -> None:
    text = "SELECT k FROM a UNION ALL SELECT k FROM b"
    found = refreshed(text, {"a": _K, "b": _K}, {"a": [(1,)], "b": [(1,), (2,)]}, {"a": [(1,)]})
    assert found == {"linear", "local"}


def test_distinct_is_no_bag_of_changes() -> None:
    schema = {"t": {"id": "int", "c": "string"}}
    found = refreshed("SELECT DISTINCT c FROM t", schema, {"t": [(1, "x"), (2, "x")]}, go={"t": [(1, "x")]})
    assert "linear" not in found


def test_a_rank_over_all_groups_is_refused() -> None:
    schema = {"t": {"g": "int", "x": "int"}}
    text = "SELECT g, rank() OVER (ORDER BY sum(x) DESC) AS r FROM t GROUP BY g"
    assert not refreshed(text, schema, {"t": [(1, 5), (2, 3)]}, {"t": [(2, 9)]})


def test_distinct_over_groups_keeps_what_another_group_gives() -> None:
    schema = {"t": {"g1": "int", "g2": "int"}}
    text = "SELECT DISTINCT g1, count(*) AS n FROM t GROUP BY g1, g2"
    assert refreshed(text, schema, {"t": [(1, 1), (1, 2)]}, {"t": [(1, 2)]})


def test_having_with_a_query_over_all_rows_is_refused() -> None:
    schema = {"t": {"g": "int", "x": "int"}}
    text = "SELECT g, sum(x) AS s FROM t GROUP BY g HAVING sum(x) > (SELECT sum(x) / 2 FROM t)"
    assert not refreshed(text, schema, {"t": [(1, 5), (2, 3)]}, {"t": [(2, 9)]})


def test_three_tables_in_a_row_telescope() -> None:
    schema = {"c": {"ck": "int", "seg": "string"}, "o": {"ok": "int", "oc": "int"}, "l": {"lk": "int", "q": "int"}}
    text = "SELECT c.seg, o.ok, l.q FROM c JOIN o ON c.ck = o.oc JOIN l ON l.lk = o.ok"
    before: dict[str, Rows] = {"c": [(1, "a"), (2, "b")], "o": [(10, 1), (20, 2)], "l": [(10, 5), (20, 6)]}
    come: dict[str, Rows] = {"c": [(1, "z")], "l": [(10, 7), (20, 8)]}
    found = refreshed(text, schema, before, come, {"c": [(1, "a")], "l": [(10, 5)]})
    assert found == {"telescoped"}


def test_a_self_join_takes_keys_of_both_columns() -> None:
    schema = {"e": {"id": "int", "mgr": "int"}}
    text = "SELECT m.id, count(*) AS n FROM e AS s JOIN e AS m ON s.mgr = m.id GROUP BY m.id"
    before: dict[str, Any] = {"e": [(1, None), (2, 1), (3, 1)]}
    assert "local" in refreshed(text, schema, before, {"e": [(1, 3), (3, 2)]}, {"e": [(1, None), (3, 1)]})


def test_averages_of_whole_numbers_are_never_entered_by_content() -> None:
    schema = {"t": {"k": "int", "x": "bigint"}, "u": _KV}
    text = "SELECT d.a FROM (SELECT k, avg(x) AS a FROM t GROUP BY k) d"
    with pytest.raises(NotIncremental, match="last digits"):
        analyse(text, schema).rule(frozenset({"t"}))


def test_a_pair_whose_both_sides_go_at_once_goes_once() -> None:
    text = "SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k"
    schema = {"a": _KV, "b": _KV}
    before: dict[str, Rows] = {"a": [(1, 1), (2, 2)], "b": [(1, 3), (2, 4)]}
    assert "local" in refreshed(text, schema, before, {"a": [(2, 5)], "b": [(2, 6)]}, {"a": [(1, 1)], "b": [(1, 3)]})


def test_the_same_table_twice_in_union_all_counts_twice() -> None:
    assert refreshed("SELECT k FROM a UNION ALL SELECT k FROM a", {"a": _K}, {"a": [(1,)]}, {"a": [(1,), (2,)]})


def test_the_kept_side_of_an_outer_join_is_cut_too() -> None:
    text = "SELECT a.k, a.v, b.v AS w FROM a LEFT JOIN b ON a.k = b.k"
    before: dict[str, Rows] = {"a": [(1, 1), (2, 2)], "b": [(1, 3)]}
    assert refreshed(text, {"a": _KV, "b": _KV}, before, go={"b": [(1, 3)]})


def test_a_group_that_went_and_one_that_returns() -> None:
    text = "SELECT k, count(*) AS n, sum(v) AS s FROM a GROUP BY k"
    assert refreshed(text, {"a": _KV}, {"a": [(1, 1), (2, 2)]}, {"a": [(3, 3)]}, {"a": [(1, 1)]})


def test_a_sum_over_nothing_is_one_row() -> None:
    text = "SELECT sum(v) AS s, count(*) AS n FROM a"
    refreshed(text, {"a": _KV}, {"a": [(1, 1)]}, go={"a": [(1, 1)]})


def test_a_group_of_nulls_has_no_sum() -> None:
    text = "SELECT k, sum(v) AS s, count(v) AS n, count(*) AS m FROM a GROUP BY k"
    assert refreshed(text, {"a": _KV}, {"a": [(1, 4), (1, None)]}, go={"a": [(1, 4)]})


def test_a_row_that_moves_to_another_group_leaves_its_own() -> None:
    text = "SELECT k, sum(v) AS s FROM a GROUP BY k"
    assert refreshed(text, {"a": _KV}, {"a": [(1, 4), (1, 5), (2, 1)]}, {"a": [(2, 4)]}, {"a": [(1, 4)]})


def test_columns_of_different_types_are_not_one_class() -> None:
    schema = {"a": {"k": "int", "v": "int"}, "b": {"k": "string", "v": "int"}}
    view = analyse("SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k", schema)
    assert {each.name for each in view.rules(frozenset({"a", "b"}))} == {"grouped", "summed"}


@pytest.mark.parametrize("kind", ["double", "float", "array<int>"])
def test_floats_and_lists_are_no_keys(kind: str) -> None:
    view = analyse("SELECT k, count(*) AS n FROM a GROUP BY k", {"a": {"k": kind, "v": "int"}})
    assert all(each.name != "local" for each in view.rules(frozenset({"a"})))


@pytest.mark.parametrize("condition", ["a.k = b.k OR a.v = 1", "CASE WHEN a.k = b.k THEN true END", "NOT a.k <> b.k"])
def test_only_conditions_that_every_row_meets_equate(condition: str) -> None:
    schema = {"a": _KV, "b": _KV}
    text = f"SELECT a.k, count(*) AS n FROM a CROSS JOIN b WHERE {condition} GROUP BY a.k"
    refreshed(text, schema, {"a": [(1, 1), (2, 2)], "b": [(1, 3)]}, {"b": [(2, 4)], "a": [(1, 3)]})
    assert all(each.name != "local" for each in analyse(text, schema).rules(frozenset({"a", "b"})))


def test_an_equation_in_having_equates_nothing() -> None:
    text = "SELECT a.k, b.k AS j, count(*) AS n FROM a CROSS JOIN b GROUP BY a.k, b.k HAVING a.k = b.k"
    schema = {"a": _KV, "b": _KV}
    refreshed(text, schema, {"a": [(1, 1), (2, 2)], "b": [(1, 3)]}, {"b": [(2, 4)], "a": [(1, 3)]})
    assert all(each.name != "local" for each in analyse(text, schema).rules(frozenset({"a", "b"})))


def test_null_safe_equality_ties_null_to_null() -> None:
    text = "SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k <=> b.k"
    before: dict[str, Rows] = {"a": [(None, 1), (1, 2)], "b": [(None, 3)]}
    schema = {"a": _KV, "b": _KV}
    assert "local" in refreshed(text, schema, before, {"a": [(None, 9)], "b": [(None, 4)]}, {"a": [(None, 1)]})


def test_a_full_join_has_only_the_coalesced_key() -> None:
    schema = {"a": _KV, "b": _KV}
    text = "SELECT coalesce(a.k, b.k) AS k, a.v, b.v AS w FROM a FULL JOIN b ON a.k = b.k"
    before: dict[str, Rows] = {"a": [(1, 1), (2, 2)], "b": [(1, 3), (4, 4)]}
    assert "local" in refreshed(text, schema, before, {"b": [(2, 5)]}, {"a": [(1, 1)]})
    assert on_of(analyse(text, schema), "a", "b") == {("k",)}
    one_side = "SELECT a.k, a.v, b.v AS w FROM a FULL JOIN b ON a.k = b.k"
    refreshed(one_side, schema, before, {"b": [(2, 5)]}, {"a": [(1, 1)]})
    assert on_of(analyse(one_side, schema), "a", "b") == {()}


def test_several_windows_share_the_partition() -> None:
    schema = {"a": {"k": "int", "x": "int", "v": "int"}}
    text = """SELECT k, rank() OVER (PARTITION BY k, x ORDER BY v) AS r, count(*) OVER (PARTITION BY k) AS n FROM a"""
    before: dict[str, Rows] = {"a": [(1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 1, 1)]}
    assert refreshed(text, schema, before, {"a": [(1, 2, 0)]}, {"a": [(1, 1, 1)]}) == {"local", "grouped"}


def test_the_latest_row_of_each_key_over_a_join() -> None:
    schema = {"a": {"k": "int", "x": "int", "v": "int"}, "d": {"x": "int", "g": "int"}}
    text = """SELECT g, v FROM (
        SELECT d.g, a.v, row_number() OVER (PARTITION BY d.g ORDER BY a.v DESC) AS n FROM a JOIN d ON a.x = d.x
    ) WHERE n = 1"""
    before: dict[str, Rows] = {"a": [(1, 1, 5), (2, 1, 7), (3, 2, 1)], "d": [(1, 8), (2, 9)]}
    assert "grouped" in refreshed(text, schema, before, {"a": [(4, 1, 6)], "d": [(2, 8)]}, {"a": [(2, 1, 7)]})


def test_a_cte_that_is_read_twice_changes_at_both_places() -> None:
    text = "WITH c AS (SELECT k, count(*) AS n FROM a GROUP BY k) SELECT x.k, y.n FROM c x JOIN c y ON x.k = y.k"
    assert "local" in refreshed(text, {"a": _KV}, {"a": [(1, 1), (2, 2)]}, {"a": [(1, 3)]}, {"a": [(2, 2)]})


def test_semi_and_anti_joins_are_exists() -> None:
    schema = {"a": _KV, "b": _KV}
    before: dict[str, Rows] = {"a": [(1, 1), (2, 2), (None, 3)], "b": [(1, 3)]}
    for kind in ("SEMI", "ANTI"):
        text = f"SELECT a.k, a.v FROM a LEFT {kind} JOIN b ON a.k = b.k"
        assert "local" in refreshed(text, schema, before, {"b": [(2, 5), (None, 1)]}, {"b": [(1, 3)]})
