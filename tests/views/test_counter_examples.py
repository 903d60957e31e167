"""Queries over which too simple rules go wrong, on Spark: each is refused, or its view is what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from views.conftest import Lake

    from tidemill.api.results import RunStep


@dataclass(frozen=True)
class Case:
    """`{a}` and `{b}` in the query and the changes are tables of the case; `rule` is None where it may be refused."""

    query: str
    tables: dict[str, tuple[str, list[tuple[object, ...]]]]
    comes: dict[str, list[tuple[object, ...]]]
    goes: dict[str, str] | None = None
    rule: str | None = None


CASES = {
    "null_supplied_key": Case(
        "SELECT b.k, a.v FROM {a} a LEFT JOIN {b} b ON a.k = b.k",
        {"a": ("k long, v long", [(1, 10), (2, 20)]), "b": ("k long", [])},
        {"b": [(1,)]},
    ),
    "null_supplied_inside": Case(
        "SELECT d.k, count(*) AS n FROM (SELECT b.k FROM {a} a LEFT JOIN {b} b ON a.k = b.k) d GROUP BY d.k",
        {"a": ("k long", [(1,), (2,)]), "b": ("k long", [])},
        {"b": [(1,)]},
    ),
    "outer_on_equates_nothing": Case(
        "SELECT a.y, count(*) AS n FROM {a} a LEFT JOIN {b} b ON a.x = b.k AND a.y = b.k GROUP BY a.y",
        {"a": ("x long, y long", [(1, 2), (2, 2)]), "b": ("k long", [(1,), (2,)])},
        {"a": [(1, 2)]},
    ),
    "null_safe_and_null_supplied": Case(
        "SELECT a.k, c.k AS c FROM {a} a LEFT JOIN {b} b ON a.k = b.k LEFT JOIN {c} c ON b.k <=> c.k",
        {"a": ("k long", [(1,)]), "b": ("k long", []), "c": ("k long", [])},
        {"c": [(None,), (1,)]},
    ),
    "not_in_by_another_name": Case(
        "SELECT a.k FROM {a} a WHERE NOT (a.k IN (SELECT k FROM {b}))",
        {"a": ("k long", [(1,), (2,), (None,)]), "b": ("k long", [(2,)])},
        {"b": [(None,)]},
    ),
    "null_group": Case(
        "SELECT k, count(*) AS n, count(v) AS c, sum(v) AS v FROM {a} GROUP BY k",
        {"a": ("k long, v long", [(None, 1), (None, None), (1, 1), (2, 2), (3, 3), (3, None)])},
        {"a": [(None, 5), (4, None), (2, 7)]},
        {"a": "v IN (2, 3) OR k = 1"},
        "local",
    ),
    "union_all": Case(
        "SELECT k FROM {a} UNION ALL SELECT k FROM {b}",
        {"a": ("k long", [(1,), (2,)]), "b": ("k long", [(1,), (2,)])},
        {"a": [(1,)]},
        {"a": "k = 2"},  # refused by the guard of the rewritten text, which has an alias more
    ),
    "union_all_of_one_table": Case(
        "SELECT k, 'x' AS s FROM {a} UNION ALL SELECT k, 'y' FROM {a} WHERE k > 1",
        {"a": ("k long", [(1,), (2,)])},
        {"a": [(1,), (3,)]},
        {"a": "k = 2"},
    ),
    "distinct": Case(
        "SELECT DISTINCT c FROM {a}",
        {"a": ("id long, c string", [(1, "x"), (2, "x"), (3, "y"), (4, None)])},
        {"a": [(5, "z"), (6, None)]},
        {"a": "id IN (1, 3)"},
    ),
    "rank_over_sums": Case(
        "SELECT g, rank() OVER (ORDER BY sum(x) DESC) AS r FROM {a} GROUP BY g",
        {"a": ("g string, x long", [("a", 3), ("b", 2), ("c", 1)])},
        {"a": [("c", 9)]},
    ),
    "distinct_over_groups": Case(
        "SELECT DISTINCT g, count(*) AS n FROM {a} GROUP BY g, h",
        {"a": ("g string, h string", [("a", "p"), ("a", "q"), ("b", "p")])},
        {"a": [("a", "q")]},
    ),
    "having_over_all": Case(
        "SELECT g, sum(x) AS x FROM {a} GROUP BY g HAVING sum(x) > (SELECT sum(x) / 2 FROM {a})",
        {"a": ("g string, x long", [("a", 7), ("b", 3)])},
        {"a": [("b", 9)]},
    ),
    "far_sides": Case(
        "SELECT c.region, o.id, l.amount FROM {c} c JOIN {o} o ON c.id = o.customer JOIN {l} l ON l.id = o.id",
        {
            "c": ("id long, region string", [(1, "eu"), (2, "us")]),
            "o": ("id long, customer long", [(10, 1), (11, 1), (12, 2)]),
            "l": ("id long, amount long", [(10, 1), (10, 1), (11, 2), (12, 3)]),
        },
        {"c": [(1, "asia")], "l": [(11, 5), (12, 6)]},
        {"c": "id = 1", "l": "id = 10"},
    ),
    "self_join": Case(
        "SELECT s.id, s.name, m.name AS manager FROM {a} s JOIN {a} m ON s.mgr = m.id",
        {"a": ("id long, mgr long, name string", [(1, None, "one"), (2, 1, "two"), (3, 2, "three"), (4, 1, "four")])},
        {"a": [(1, 3, "uno"), (5, 2, "five")]},
        {"a": "id IN (1, 4)"},
    ),
    "average_of_great_numbers": Case(
        "SELECT g, avg(x) AS x FROM {a} GROUP BY g",
        {"a": ("g string, x long", [("a", 2**53), ("a", 1), ("b", 4)])},
        {"a": [("a", -(2**53)), ("b", 5)]},
        None,
    ),
    "one_row_of_nothing": Case(
        "SELECT count(*) AS n, sum(x) AS x FROM {a}",
        {"a": ("x long", [(1,), (2,)])},
        {},
        {"a": "true"},
    ),
    "grouping_sets": Case(
        "SELECT g, h, sum(x) AS x FROM {a} GROUP BY ROLLUP (g, h)",
        {"a": ("g string, h string, x long", [("a", "p", 1), ("a", None, 2), (None, "p", 3)])},
        {"a": [("a", "p", 1), (None, None, 4)]},
    ),
    "full_join": Case(
        "SELECT coalesce(a.k, b.k) AS k, a.v, b.v AS w FROM {a} a FULL JOIN {b} b ON a.k = b.k",
        {"a": ("k long, v long", [(1, 10), (2, 20), (None, 0)]), "b": ("k long, v long", [(2, 21), (3, 31)])},
        {"a": [(3, 30), (None, 1)], "b": [(1, 11), (None, 2), (2, 22)]},
        {"a": "k = 2"},
    ),
    "exists_and_not_exists": Case(
        "SELECT a.k, a.v FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE b.k = a.k AND b.v <> a.v)\n"
        "AND NOT EXISTS (SELECT 1 FROM {c} c WHERE c.k = a.k)",
        {
            "a": ("k long, v long", [(1, 1), (1, 1), (2, 2), (3, 3), (None, 4)]),
            "b": ("k long, v long", [(1, 2), (2, 2), (3, 4)]),
            "c": ("k long", [(3,)]),
        },
        {"b": [(2, 9)], "c": [(1,), (None,)]},
        {"c": "k = 3"},
        "local",
    ),
    "latest_of_each": Case(
        "SELECT k, v, s FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM {a}) WHERE r = 1",
        {"a": ("k long, v long, s string", [(1, 1, "a"), (1, 2, "b"), (2, 1, "c"), (None, 1, "d")])},
        {"a": [(2, 5, "e"), (None, 0, "f"), (3, 1, None)]},
        {"a": "s = 'b'"},  # the same
    ),
    "no_columns": Case(
        "SELECT 1 AS one FROM {a}", {"a": ("k long", [(1,), (2,)])}, {"a": [(1,), (3,)]}, {"a": "k = 2"}
    ),
    "equal_by_a_cast": Case(
        "SELECT a.k, b.t FROM {a} a JOIN {b} b ON a.k = b.t",
        {"a": ("k long", [(1,), (10,)]), "b": ("t string", [("1",), ("01",), ("10",)])},
        {"a": [(1,)], "b": [("010",)]},
        {"b": "t = '1'"},
    ),
    "correlated_average": Case(
        "SELECT a.k, a.v FROM {a} a WHERE a.v >= (SELECT avg(b.v) FROM {a} b WHERE b.k = a.k)",
        {"a": ("k long, v long", [(1, 1), (1, 3), (2, 5), (None, 1)])},
        {"a": [(1, 9), (3, 1)]},
        {"a": "k = 2"},
    ),
}


def test_no_view_is_wrong_whatever_rule_is_used_for_it(lake: Lake) -> None:
    for name, case in CASES.items():
        for letter, (columns, rows) in case.tables.items():
            lake.table(f"{name}_{letter}", columns, *rows)
        lake.view(name, case.query.format(**{letter: f"{name}_{letter}" for letter in case.tables}))
    lake.table("x.y_z", "k long, v long", (1, 1), (2, 2))
    lake.table("x_y.z", "k long, v long", (1, 10), (2, 20))
    lake.view("names_that_look_alike", "SELECT a.k, a.v, b.v AS w FROM x.y_z a JOIN x_y.z b ON a.k = b.k")
    lake.check_all(lake.run(), None)
    lake.append("x.y_z", (1, 3))
    lake.append("x_y.z", (2, 30))
    for name, case in CASES.items():
        for letter, condition in (case.goes or {}).items():
            lake.delta(f"{name}_{letter}").delete(condition)
        for letter, rows in case.comes.items():
            lake.append(f"{name}_{letter}", *rows)
    steps = lake.run()
    wrong = [
        found
        for name, step in steps.items()
        if (found := why_wrong(lake, step, CASES[name].rule if name in CASES else "local"))
    ]
    assert wrong == [], "\n".join(wrong)


def why_wrong(lake: Lake, step: RunStep, rule: str | None) -> str | None:
    if step.error is not None and step.error.code == "view.not_incremental":
        return f"{step.table}: {step.error.problem}" if rule else None
    try:
        lake.check(step)
    except AssertionError as wrong:
        return str(wrong)
    used = step.refresh["rule"] if step.refresh else None
    return None if rule in {None, used} else f"{step.table} by {used}"
