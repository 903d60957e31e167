"""Views kept up to date on DuckDB, as an execution would: pinned tables, signed changes, settled keys."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import sqlglot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidemill.ivm import Rule

Rows = list[tuple[Any, ...]]
Schema = dict[str, dict[str, str]]
_MANY = 50
_DUCK = {"string": "varchar", "int": "integer", "timestamp_ntz": "timestamp"}


@dataclass
class Names:
    """Relations in DuckDB; each term of a rule has keys of its own."""

    keys: str = "keys"

    def now(self, table: str) -> str:
        return f"{table}_now"

    def before(self, table: str) -> str:
        return f"{table}_before"

    def changes(self, table: str) -> str:
        return f"{table}_changes"


class _Before(Names):
    def now(self, table: str) -> str:
        return self.before(table)


@dataclass
class Duck:
    """Tables with their rows as they were at the last refresh, and as they are now."""

    schema: Schema
    before: dict[str, Rows]
    now: dict[str, Rows] = field(default_factory=dict)
    connection: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        self.connection.execute("PRAGMA threads=1")
        for table in self.schema:
            for state in ("before", "now", "changes"):
                self._create(f"{table}_{state}", self.schema[table], state == "changes")
            self._fill(f"{table}_before", self.before[table])
            self.now[table] = list(self.before[table])
            self._fill(f"{table}_now", self.now[table])
            self.connection.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM {table}_now")

    def _create(self, name: str, columns: dict[str, str], is_signed: bool) -> None:
        types = [f'"{each}" {_DUCK.get(kind, kind)}' for each, kind in columns.items()]
        signs = ["__w integer"] if is_signed else []
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(types + signs)})")

    def _fill(self, name: str, rows: Rows) -> None:
        self.connection.execute(f"DELETE FROM {name}")
        if len(rows) > _MANY:
            arrow = pa.table({f"c{n}": list(each) for n, each in enumerate(zip(*rows, strict=True))})
            self.connection.from_arrow(arrow).insert_into(name)
        elif rows:
            marks = ", ".join("?" for _ in rows[0])
            values = ", ".join(f"({marks})" for _ in rows)
            self.connection.execute(f"INSERT INTO {name} VALUES {values}", [each for row in rows for each in row])

    def change(self, inserted: dict[str, Rows], deleted: dict[str, Rows]) -> frozenset[str]:
        """The tables that changed."""
        for table in self.schema:
            come, go = inserted.get(table, []), deleted.get(table, [])
            held = Counter(self.now[table])
            assert not Counter(go) - held
            self.now[table] = list((held - Counter(go) + Counter(come)).elements())
            self._fill(f"{table}_now", self.now[table])
            self._fill(f"{table}_changes", [(*row, 1) for row in come] + [(*row, -1) for row in go])
        return frozenset(each for each in self.schema if inserted.get(each) or deleted.get(each))

    def advance(self) -> None:
        """What is there now becomes what was there before."""
        for table in self.schema:
            self._fill(f"{table}_before", self.now[table])
            self._fill(f"{table}_changes", [])

    def full(self, text: str) -> Counter[tuple[Any, ...]]:
        """The user's own text over the tables as they are now."""
        return Counter(self.rows(sqlglot.transpile(text, read="spark", write="duckdb")[0]))

    def rows(self, text: str) -> Rows:
        return [tuple(_comparable(each) for each in row) for row in self.connection.execute(text).fetchall()]

    def settle(self, name: str, text: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {text}")

    def refreshed(
        self, rule: Rule, held: Counter[tuple[Any, ...]], output: tuple[str, ...]
    ) -> Counter[tuple[Any, ...]]:
        """What a target holds after the rule was applied to it."""
        return _REFRESH[rule.name](self, rule, held, output)

    def _by_content(self, held: Counter[tuple[Any, ...]], signed: Rows) -> Counter[tuple[Any, ...]]:
        result = Counter(held)
        for *row, sign in signed:
            result[tuple(row)] += sign
        assert all(count >= 0 for count in result.values()), "a row went that was not there"
        return +result

    def _signed(self, rule: Any, held: Counter[tuple[Any, ...]], output: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
        del output
        names = self._names_of_terms(rule)
        nears = self._nears(rule)
        many = rule.name == "telescoped"
        text = rule.signed(names if many else names[0], nears if many else nears[0], dialect="duckdb")
        return self._by_content(held, self.rows(text))

    def _names_of_terms(self, rule: Any) -> list[Names]:
        found = [Names(f"keys_{n}") for n, _ in enumerate(rule.terms)]
        for names, term in zip(found, rule.terms, strict=True):
            if term.name == "local":
                self.settle(names.keys, term.keys(names, dialect="duckdb"))
        return found

    def _local(self, rule: Any, held: Counter[tuple[Any, ...]], output: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
        if rule.by_content:
            return self._signed(rule, held, output)
        self.settle("keys", rule.keys(Names(), dialect="duckdb"))
        return self._by_key(rule, held, output)

    def _grouped(self, rule: Any, held: Counter[tuple[Any, ...]], output: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
        self.settle("keys", rule.keys(self._names_of_terms(rule), self._nears(rule), dialect="duckdb"))
        return self._by_key(rule, held, output)

    def _summed(self, rule: Any, held: Counter[tuple[Any, ...]], output: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
        """The state of before is computed again; that of now has to be the same as if it were."""
        rows = ", ".join(rule.state)
        self.settle("state", rule.initial(_Before(), dialect="duckdb"))
        self.settle("change", rule.change(self._names_of_terms(rule), self._nears(rule), dialect="duckdb"))
        self.settle("merged", f"SELECT * FROM ({rule.merged('state', 'change', dialect='duckdb')})")
        assert self.rows(rule.impossible("merged", dialect="duckdb")) == [(0,)]
        same = " AND ".join(f"s.{each} IS NOT DISTINCT FROM m.{each}" for each in rule.key_columns) or "true"
        self.connection.execute(f"DELETE FROM state s WHERE EXISTS (SELECT 1 FROM merged m WHERE {same})")
        alive = " WHERE n <> 0" if rule.key_columns else ""
        self.connection.execute(f"INSERT INTO state SELECT {rows} FROM merged{alive}")
        kept = (*rule.key_columns, "n")
        fresh = self.rows(f"SELECT {', '.join(kept)} FROM ({rule.initial(Names(), dialect='duckdb')})")
        assert Counter(fresh) == Counter(self.rows(f"SELECT {', '.join(kept)} FROM state")), "another state"
        if not rule.on:
            return Counter(self.rows(rule.visible("state", dialect="duckdb")))
        self.settle("keys", rule.groups("change", dialect="duckdb"))
        return self._replaced(rule, held, output, rule.visible("state", "keys", dialect="duckdb"))

    def _near(self, keys: str) -> Callable[[str, int], str | None]:
        """The keys as literals, as an execution gives them so that files can be skipped."""

        def near(column: str, number: int) -> str | None:
            values = {row[0] for row in self.connection.execute(f"SELECT k{number} FROM {keys}").fetchall()}
            listed = [f"{each!r}" if isinstance(each, int | str) else f"'{each}'" for each in values - {None}]
            inside = f"{column} IN ({', '.join(sorted(listed))})" if listed else "false"
            return f"{inside} OR {column} IS NULL" if None in values else inside

        return near

    def _nears(self, rule: Any) -> list[Callable[[str, int], str | None] | None]:
        return [self._near(f"keys_{n}") if each.name == "local" else None for n, each in enumerate(rule.terms)]

    def _by_key(self, rule: Any, held: Counter[tuple[Any, ...]], output: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
        return self._replaced(rule, held, output, rule.new(Names(), self._near("keys"), dialect="duckdb"))

    def _replaced(
        self, rule: Any, held: Counter[tuple[Any, ...]], output: tuple[str, ...], text: str
    ) -> Counter[tuple[Any, ...]]:
        keys = set(self.rows("SELECT * FROM keys"))
        places = [output.index(each) for each in rule.on]
        kept = Counter({row: n for row, n in held.items() if tuple(row[each] for each in places) not in keys})
        return kept + Counter(self.rows(text))


def _comparable(value: Any) -> Any:
    """Floats up to what another order of adding changes; lists can be counted."""
    if isinstance(value, float | Decimal):
        return float(f"{value:.9g}")
    return tuple(value) if isinstance(value, list) else value


def same(one: Counter[tuple[Any, ...]], other: Counter[tuple[Any, ...]]) -> bool:
    """As bags. DuckDB averages decimals as doubles, where Spark and rule S round them."""
    return one == other or all(
        _near(*pair) for pair in itertools.zip_longest(*(sorted(each.elements(), key=_order) for each in (one, other)))
    )


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*(str(each) for each in row if not isinstance(each, float)), *(str(each) for each in row))


def _near(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    if one is None or other is None or len(one) != len(other):
        return False
    return all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )


_REFRESH: dict[str, Any] = {
    "linear": Duck._signed,
    "telescoped": Duck._signed,
    "local": Duck._local,
    "grouped": Duck._grouped,
    "summed": Duck._summed,
}
