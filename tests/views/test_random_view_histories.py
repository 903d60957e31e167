"""Random commits on the inputs of random views: after each run every view is what its query gives."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from views.conftest import FEED, MARKS, NO_MARKS

if TYPE_CHECKING:
    from views.conftest import Lake

T, U = "id long, k long, v decimal(10,2), s string", "k long, w string"
QUERIES = (
    "SELECT t.k, t.v, u.w FROM t JOIN u ON t.k = u.k",
    "SELECT t.k, t.s, u.w FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT k, count(*) AS n, count(s) AS c, sum(v) AS v, max(s) AS s FROM t GROUP BY k",
    "SELECT t.k, u.w, count(DISTINCT t.s) AS n FROM t JOIN u ON t.k = u.k GROUP BY t.k, u.w HAVING count(*) > 1",
    "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > t.s)",
    "SELECT k, s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "SELECT k, s FROM t UNION ALL SELECT k, w FROM u",
    "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM t",
    "SELECT coalesce(t.k, u.k) AS k, t.v, u.w FROM t FULL JOIN u ON t.k = u.k",
    "SELECT k, s FROM t EXCEPT SELECT k, w FROM u",
    "SELECT DISTINCT k, s FROM t",
    "SELECT a.k, a.v, b.v AS other FROM t a JOIN t b ON a.k = b.k AND a.id < b.id",
    "SELECT k, v FROM t WHERE v >= (SELECT avg(o.v) FROM t o WHERE o.k = t.k)",
)
OVER_THAT = "SELECT k, count(*) AS n FROM first GROUP BY k"


class Commits:
    """Random commits on the tables of a lake, by delta-rs or by Spark."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake, self.random = lake, random.Random(seed)
        self.told: list[str] = []

    def some(self) -> None:
        """One to three commits on one table or both."""
        for name in self.random.sample(["t", "u"], self.random.choice((1, 1, 2))):
            for _ in range(self.random.choice((1, 1, 2, 3))):
                kinds = (self.append, self.append, self.delete, self.update, self.replace, self.optimize, self.restore)
                self.random.choice(kinds)(name)

    def rows(self, name: str, most: int) -> list[tuple[object, ...]]:
        return [self.row(name) for _ in range(self.random.randint(1, most))]

    def row(self, name: str) -> tuple[object, ...]:
        key, text = self.random.choice((None, 1, 2, 3, 4, 5)), self.random.choice((None, "a", "b", "c"))
        if name == "u":
            return key, text
        value = self.random.choice((None, Decimal("1.50"), Decimal("2.00"), Decimal("-1.00")))
        return self.random.randint(1, 30), key, value, text

    def append(self, name: str) -> None:
        rows = self.rows(name, 4)
        self.told.append(f"append to {name} {rows}")
        self.lake.append(name, *rows)

    def replace(self, name: str) -> None:
        rows = self.rows(name, 12)
        self.told.append(f"overwrite {name} {rows}")
        self.lake.overwrite(name, *rows)

    def delete(self, name: str) -> None:
        self.sql(f"DELETE FROM {{{name}}} WHERE {self.condition()}")

    def update(self, name: str) -> None:
        key = self.random.choice(("k + 1", "NULL", "2"))
        self.sql(f"UPDATE {{{name}}} SET k = {key} WHERE {self.condition()}")

    def condition(self) -> str:
        return self.random.choice(("k = 1", "k IN (2, 3)", "k IS NULL", "k > 3"))

    def sql(self, statement: str) -> None:
        self.told.append(statement)
        self.lake.sql(statement)

    def optimize(self, name: str) -> None:
        self.sql(f"OPTIMIZE {{{name}}}")

    def restore(self, name: str) -> None:
        version = max(1, self.lake.version(name) - self.random.randint(1, 3))
        self.sql(f"RESTORE {{{name}}} TO VERSION AS OF {version}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One of them in `make test`; `--histories 400` tries ten."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(max(1, metafunc.config.getoption("--histories") // 40)))


@pytest.mark.usefixtures("_small_is_large")
def test_views_stay_exact_under_random_commits(lake: Lake, seed: int) -> None:
    check_history(lake, seed, 4)


@pytest.mark.slow
@pytest.mark.usefixtures("_small_is_large")
@pytest.mark.parametrize("long_seed", range(1000, 1008))
def test_views_stay_exact_under_long_random_histories(lake: Lake, long_seed: int) -> None:
    check_history(lake, long_seed, 20)


def check_history(lake: Lake, seed: int, rounds: int) -> None:
    """Two random views and one of the first of them, through so many runs with random commits in between."""
    commits = Commits(lake, seed)
    properties = [{**MARKS, **FEED}, {**NO_MARKS, **FEED}, MARKS, NO_MARKS]
    for name, columns in (("t", T), ("u", U)):
        lake.spark_table(name, columns, *commits.rows(name, 15), properties=commits.random.choice(properties))
    queries = commits.random.sample(QUERIES, 2)
    for name, query in zip(("first", "second", "third"), (*queries, OVER_THAT), strict=True):
        lake.view(name, query, "")
    lake.check_all(lake.run(), None)
    modes = set()
    for _ in range(rounds):
        commits.some()
        steps = lake.run()
        try:
            lake.check_all(steps, None)
        except AssertionError as wrong:
            raise AssertionError("\n".join([f"seed {seed}: {wrong}", *lake.queries.values(), *commits.told])) from wrong
        modes |= {(step.table, step.refresh["mode"]) for step in steps.values() if step.refresh}
    assert "incremental" in {mode for _, mode in modes}, modes
    lake.check_again()
