"""Random schemas, queries and histories: every rule that a view offers against the full query, on DuckDB.

python tests/ivm/fuzz.py --cases 100000 --resume FILE     # goes on where FILE says the last run ended
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from duck import Duck, Rows, Schema, same

from tidemill.ivm import NotIncremental, analyse

_TYPES = {"k": "int", "x": "int", "z": "bigint", "v": "decimal(8,2)", "f": "double", "s": "string"}
_STEPS = 3


@dataclass
class Found:
    """What became of one case."""

    seed: int
    text: str
    outcome: str
    rules: Counter[str] = field(default_factory=Counter)
    detail: str = ""


@dataclass
class Columns:
    """The columns that an expression may use, as (SQL, type)."""

    own: list[tuple[str, str]]
    outer: list[tuple[str, str]] = field(default_factory=list)

    def of_type(self, *kinds: str) -> list[str]:
        return [text for text, kind in self.own if kind in kinds]


class Generator:
    """Queries weighted so that conditions of the rules are met and missed about equally often."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        names = "abcd"[: self.random.randint(1, 4)]
        self.schema: Schema = {each: self._columns() for each in names}
        self.key = self.random.choice(["k", "x"])
        self.not_null = {each: frozenset({"k"}) for each in names if self.chance(0.4)}
        self.tame = self.chance(0.7)  # nearly all conditions are on one key

    def _columns(self) -> dict[str, str]:
        more = self.random.sample(["z", "v", "f", "s"], self.random.randint(0, 2))
        return {each: _TYPES[each] for each in ("k", "x", *more)}

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def alias(self) -> str:
        self.count += 1
        return f"t{self.count}"

    # Rows

    def value(self, kind: str, *, or_null: bool = True) -> Any:
        if self.chance(0.15) and or_null:
            return None
        n = self.random.randint(0, 3)
        return {"string": "abcd"[n], "double": n / 2, "decimal(8,2)": n}.get(kind, n)

    def rows(self, table: str, most: int) -> Rows:
        solid = self.not_null.get(table, frozenset())
        kinds = self.schema[table].items()
        return [
            tuple(self.value(kind, or_null=name not in solid) for name, kind in kinds)
            for _ in range(self.random.randint(0, most))
        ]

    def changes(self, held: dict[str, Rows]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """Rows that come and rows that go, of one table or of several."""
        tables = list(self.schema)
        chosen = tables if self.chance(0.2) else self.random.sample(tables, self.random.randint(1, min(2, len(tables))))
        come: dict[str, Rows] = {}
        go: dict[str, Rows] = {}
        for table in chosen:
            old = held[table]
            gone = self.random.sample(old, min(len(old), self.random.randint(0, 2)))
            go[table] = list(old) if self.chance(0.05) else gone
            come[table] = self.rows(table, 2)
            if go[table] and self.chance(0.3):  # an update of one column
                row = list(self.random.choice(go[table]))
                place = self.random.randrange(len(row))
                name, kind = list(self.schema[table].items())[place]
                row[place] = self.value(kind, or_null=name not in self.not_null.get(table, frozenset()))
                come[table] = [*come[table], tuple(row)]
        return come, go

    # Queries

    def query(self) -> str:
        if self.chance(0.4):
            return self._trap()
        if self.chance(0.15):
            return self._with_cte()
        return self.select(2)[0]

    def _trap(self) -> str:
        """A query close to one that once broke a rule, or to a condition that is seldom met by chance."""
        one, other, third = (self.random.choice(list(self.schema)) for _ in range(3))
        key, more = self.random.sample(["k", "x"], 2)
        shown = self.random.choice([f"a1.{key}", f"a1.{more}", f"a2.{key}", f"a2.{more}"])
        side = self.random.choice(["LEFT", "LEFT", "RIGHT", "FULL", "INNER"])
        sign = self.random.choice(["=", "=", "<=>"])
        joined = f"{one} a1 {side} JOIN {other} a2 ON a1.{key} {sign} a2.{key}"
        not_in = self.random.choice([f"NOT a1.{key} IN", f"a1.{key} NOT IN", f"a1.{key} IN"])
        compared = self.random.choice(["EXCEPT", "INTERSECT", "EXCEPT ALL", "UNION"])
        turned = self.random.choice([f"{key}, {more}", f"{more}, {key}"])
        twice = f"FROM {one} a1 LEFT JOIN {other} a2 ON a1.{key} = a2.{key} AND a1.{more} = a2.{key}"
        full = f"FROM {one} a1 FULL JOIN {other} a2 ON a1.{key} {sign} a2.{key}"
        four = f"FROM {one} a1 LEFT JOIN {other} a2 ON a1.{key} = a2.{key} LEFT JOIN {third} a3 ON a1.{key} = a3.{key}"
        four += f" LEFT JOIN {third} a4 ON a1.{more} = a4.{more}"
        texts = [
            f"SELECT {shown} AS c0, count(*) AS c1 FROM {joined} GROUP BY {shown}",
            f"SELECT {shown} AS c0, a1.{more} AS c1 FROM {joined}",
            f"SELECT {shown} AS c0 FROM {joined} AND a1.{more} = a2.{key}",
            f"SELECT {shown} AS c0, count(*) AS c1 FROM {joined} AND a1.{more} = a2.{key} GROUP BY {shown}",
            f"SELECT a1.{more} AS c0, count(*) AS n {twice} GROUP BY a1.{more}",
            f"SELECT {shown} AS c0, a1.{more} AS c1, a2.{more} AS c2 {full}",
            f"SELECT {key} AS c0 FROM {one} UNION ALL SELECT o.{key} FROM {third} LEFT JOIN {other} o ON o.{more} < 2",
            f"SELECT a1.{key} AS c0, a2.{more} AS c1, a3.{more} AS c2, a4.{key} AS c3 {four}",
            f"SELECT {shown} AS c0 FROM {joined} LEFT JOIN {third} a3 ON a2.{key} {sign} a3.{key}",
            f"SELECT d.{key}, count(*) AS n FROM (SELECT {shown} AS {key} FROM {joined}) d GROUP BY d.{key}",
            f"SELECT DISTINCT {shown} AS c0 FROM {joined}",
            f"SELECT a1.{key} AS c0 FROM {one} a1 WHERE {not_in} (SELECT a2.{key} FROM {other} a2)",
            f"SELECT {key} AS c0, {more} AS c1 FROM {one} WHERE {key} NOT IN (SELECT {key} FROM {other})",
            f"SELECT {key}, count(*) AS n FROM {one} WHERE NOT {key} IN (SELECT {key} FROM {other}) GROUP BY {key}",
            f"SELECT a1.{key} AS c0 FROM {one} a1 WHERE a1.{more} = 1 OR a1.{key} IN (SELECT {key} FROM {other})",
            f"SELECT a1.{key} AS c0 FROM {one} a1, {other} a2 WHERE a1.{key} = a2.{key} OR a1.{more} = 1",
            f"SELECT {key} AS c0, {more} AS c1 FROM {one} UNION ALL SELECT {shown}, a2.{more} FROM {joined}",
            f"SELECT {key} AS c0 FROM {one} UNION ALL SELECT {more} FROM {other}",
            f"SELECT a1.{key} AS c0, a2.{more} AS c1 FROM {joined} WHERE a2.{key} IS NULL OR a1.{more} < 2",
            f"SELECT {shown} AS c0, rank() OVER (PARTITION BY {shown} ORDER BY a1.{more}) AS r FROM {joined}",
            f"SELECT coalesce(a1.{key}, a2.{key}) AS c0, count(*) AS n FROM {joined} GROUP BY 1",
            f"SELECT a1.{key}, rank() OVER (ORDER BY sum(a1.{more}) DESC) AS r FROM {one} a1 GROUP BY a1.{key}",
            f"SELECT DISTINCT a1.{key}, count(*) AS n FROM {one} a1 GROUP BY a1.{key}, a1.{more}",
            f"SELECT {more}, sum({key}) AS s FROM {one} GROUP BY 1 HAVING s > (SELECT sum({key}) / 2 FROM {one})",
            f"SELECT {key}, (SELECT max(a2.{more}) FROM {other} a2 WHERE a2.{key} {sign} a1.{key}) AS m FROM {one} a1",
            f"SELECT {key}, {more} FROM {one} {compared} SELECT {turned} FROM {other}",
        ]
        if self.chance(0.15):
            return f"SELECT {key} AS c0, {more} AS c1 FROM {one} WHERE {key} NOT IN (SELECT {key} FROM {other})"
        return self.random.choice(texts)

    def _with_cte(self) -> str:
        inner, columns = self.select(1)
        self.schema_extra = {"cte": columns}
        text, _ = self.select(1)
        self.schema_extra = {}
        return f"WITH cte AS ({inner}) {text}"

    schema_extra: dict[str, list[tuple[str, str]]] = {}  # noqa: RUF012

    def source(self, depth: int, outer: Columns) -> tuple[str, str, list[tuple[str, str]]]:
        """Its SQL, its alias and its columns."""
        alias = self.alias()
        if self.schema_extra and self.chance(0.6):
            columns = self.schema_extra["cte"]
            return f"cte AS {alias}", alias, [(f"{alias}.{name}", kind) for name, kind in columns]
        if depth > 0 and self.chance(0.25):
            text, columns = self.select(depth - 1)
            return f"({text}) AS {alias}", alias, [(f"{alias}.{name}", kind) for name, kind in columns]
        del outer
        table = self.random.choice(list(self.schema))
        return f"{table} AS {alias}", alias, [(f"{alias}.{name}", kind) for name, kind in self.schema[table].items()]

    def select(self, depth: int, outer: Columns | None = None) -> tuple[str, list[tuple[str, str]]]:
        if outer is None and depth > 0 and self.chance(0.18):
            return self._set_operation(depth)
        return self._select(depth, outer or Columns([]))

    def _set_operation(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        kinds = ["UNION ALL"] * 4 + ["UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"]
        width = self.random.randint(1, 3)
        one, columns = self._plain(depth - 1, width)
        other, _ = self._plain(depth - 1, width)
        return f"{one} {self.random.choice(kinds)} {other}", columns

    def _plain(self, depth: int, width: int) -> tuple[str, list[tuple[str, str]]]:
        """A SELECT that gives so many whole numbers."""
        from_, columns = self._from(depth, Columns([]))
        names = columns.of_type("int") or ["1"]
        chosen = [self._preferred(names) for _ in range(width)]
        where = self._where(depth, columns, Columns([]))
        distinct = "DISTINCT " if self.chance(0.1) else ""
        listed = ", ".join(f"{each} AS c{n}" for n, each in enumerate(chosen))
        if self.chance(0.2):
            return (
                f"SELECT {listed} FROM {from_}{where} GROUP BY {', '.join(dict.fromkeys(chosen))}"
                if "1" not in chosen
                else (f"SELECT {listed} FROM {from_}{where}"),
                [(f"c{n}", "int") for n in range(width)],
            )
        return f"SELECT {distinct}{listed} FROM {from_}{where}", [(f"c{n}", "int") for n in range(width)]

    def _preferred(self, names: list[str]) -> str:
        """The column that most conditions use, or any."""
        keys = [each for each in names if each.endswith((f".{self.key}", ".c0"))]
        return self.random.choice(keys if keys and self.chance(0.93 if self.tame else 0.6) else names)

    def _from(self, depth: int, outer: Columns) -> tuple[str, Columns]:
        text, _, columns = self.source(depth, outer)
        found = Columns(list(columns), outer.own)
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 1, 2] if self.tame else [0, 1, 1, 2])):
            more, _, columns = self.source(depth - 1, outer)
            kind = self.random.choice(["JOIN"] * 4 + ["LEFT JOIN"] * 4 + ["RIGHT JOIN", "FULL JOIN", ","])
            if kind == ",":
                text += f" CROSS JOIN {more}"
            else:
                text += f" {kind} {more} ON {self._on(found, Columns(list(columns)))}"
            found.own += columns
        return text, found

    def _on(self, left: Columns, right: Columns) -> str:
        parts = [self._equation(left, right)]
        if self.chance(0.2):
            parts.append(self._equation(left, right))
        if self.chance(0.15):
            parts.append(self._comparison(right))
        if self.chance(0.1):
            parts.append(self._comparison(left))
        if self.chance(0.02 if self.tame else 0.1):
            return " OR ".join(parts) if len(parts) > 1 else f"NOT ({parts[0]})"
        return " AND ".join(parts)

    def _equation(self, left: Columns, right: Columns) -> str:
        kinds = ["int"] if self.chance(0.85) else ["int", "bigint"]
        one, other = left.of_type(*kinds), right.of_type(*kinds)
        if not one or not other:
            return "1 = 1"
        sign = "<=>" if self.chance(0.15) else "="
        pair = [self._preferred(one), self._preferred(other)]
        self.random.shuffle(pair)
        if self.chance(0.01 if self.tame else 0.05):
            return f"coalesce({pair[0]}, 0) = {pair[1]}"
        return f"{pair[0]} {sign} {pair[1]}"

    def _comparison(self, columns: Columns) -> str:
        numbers = columns.of_type("int", "bigint", "decimal(8,2)")
        if not numbers:
            return "1 = 1"
        one = self.random.choice(numbers)
        forms = [f"{one} < 2", f"{one} >= 1", f"{one} IS NULL", f"{one} IS NOT NULL", f"{one} <> 1", f"{one} = 1"]
        return self.random.choice([*forms, f"{one} > {self.random.choice(numbers)}"])

    def _where(self, depth: int, columns: Columns, outer: Columns) -> str:
        parts: list[str] = []
        if outer.own and self.chance(0.9):
            parts.append(self._equation(columns, outer))
        if self.chance(0.35):
            parts.append(self._comparison(columns))
        if self.chance(0.2):
            parts.append(self._equation(columns, columns))
        if self.chance(0.1):
            parts.append(f"({self._comparison(columns)} OR {self._equation(columns, columns)})")
        if depth > 0 and self.chance(0.3):
            parts.append(self._test(depth, columns))
        return " WHERE " + " AND ".join(parts) if parts else ""

    def _test(self, depth: int, columns: Columns) -> str:
        one = self._preferred(columns.of_type("int") or ["1"])
        kind = self.random.choice(
            ["EXISTS", "EXISTS", "NOT EXISTS", "IN", "IN", "NOT IN", "scalar", "NOT (IN)", "OR IN"]
        )
        if kind in {"EXISTS", "NOT EXISTS"}:
            return f"{kind} ({self._inner(depth - 1, columns, '1 AS one')})"
        if kind == "scalar":
            call = self.random.choice(["max", "min", "count"])
            return f"{one} {self.random.choice(['=', '<=', '<>'])} ({self._inner(depth - 1, columns, call)})"
        within = self._inner(depth - 1, columns if self.chance(0.3) else Columns([]), "")
        if kind == "NOT (IN)":
            return f"NOT ({one} IN ({within}))"
        if kind == "OR IN":
            return f"({one} IN ({within}) OR {self._comparison(columns)})"
        return f"{one} {kind} ({within})"

    def _inner(self, depth: int, outer: Columns, listed: str) -> str:
        """A query in an expression, most often tied to the rows around it."""
        from_, columns = self._from(depth, outer)
        numbers = columns.of_type("int") or ["1"]
        chosen = self._preferred(numbers)
        listed = {"": f"{chosen} AS c0"}.get(listed, listed if " " in listed else f"{listed}({chosen}) AS c0")
        return f"SELECT {listed} FROM {from_}{self._where(depth, columns, outer)}"

    def _select(self, depth: int, outer: Columns) -> tuple[str, list[tuple[str, str]]]:
        from_, columns = self._from(depth, outer)
        where = self._where(depth, columns, outer)
        shape = self.random.choice(["rows", "rows", "rows", "groups", "groups", "groups", "window", "distinct"])
        return getattr(self, f"_{shape}")(depth, f" FROM {from_}{where}", columns)

    def _listed(self, chosen: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
        text = ", ".join(f"{each} AS c{n}" for n, (each, _) in enumerate(chosen))
        return text, [(f"c{n}", kind) for n, (_, kind) in enumerate(chosen)]

    def _some(self, columns: Columns, most: int) -> list[tuple[str, str]]:
        numbers = columns.of_type("int")
        first = [(self._preferred(numbers), "int")] if numbers and self.chance(0.85 if self.tame else 0.5) else []
        chosen = self.random.sample(columns.own, min(len(columns.own), self.random.randint(1, most)))
        return first + chosen

    def _rows(self, depth: int, rest: str, columns: Columns) -> tuple[str, list[tuple[str, str]]]:
        chosen = self._some(columns, 3)
        numbers = columns.of_type("int")
        if numbers and self.chance(0.15):
            chosen.append((f"coalesce({self.random.choice(numbers)}, {self.random.choice(numbers)})", "int"))
        if numbers and self.chance(0.1):
            chosen.append((f"{self.random.choice(numbers)} + 1", "int"))
        if depth > 0 and self.chance(0.1):
            chosen.append((f"({self._inner(depth - 1, columns, self.random.choice(['max', 'count']))})", "other"))
        text, out = self._listed(chosen)
        return f"SELECT {text}{rest}", out

    def _distinct(self, depth: int, rest: str, columns: Columns) -> tuple[str, list[tuple[str, str]]]:
        del depth
        text, out = self._listed(self._some(columns, 2))
        return f"SELECT DISTINCT {text}{rest}", out

    def _groups(self, depth: int, rest: str, columns: Columns) -> tuple[str, list[tuple[str, str]]]:
        whole = self.chance(0.15)
        numbers = columns.of_type("int")
        keys = [] if whole else [(each, kind) for each, kind in self._some(columns, 2) if kind != "double"]
        keys = list(dict.fromkeys(keys))
        if len(numbers) > 1 and self.chance(0.1):
            keys.append((f"coalesce({numbers[0]}, {numbers[1]})", "int"))
        if numbers and self.chance(0.05):
            keys.append((f"{numbers[0]} % 2", "int"))
        shown = keys if self.chance(0.85) else keys[1:]
        calls = [self._call(columns) for _ in range(self.random.randint(1, 2))]
        text, out = self._listed(shown + calls)
        group = f" GROUP BY {', '.join(each for each, _ in keys)}" if keys else ""
        having = f" HAVING {calls[0][0]} >= 1" if group and calls[0][1] != "other" and self.chance(0.2) else ""
        if group and depth > 0 and self.chance(0.05):
            having = f" HAVING count(*) >= ({self._inner(depth - 1, Columns([]), 'count')})"
        distinct = "DISTINCT " if self.chance(0.07) else ""
        if group and self.chance(0.08):
            text += f", rank() OVER (PARTITION BY {keys[0][0]} ORDER BY {calls[0][0]}) AS r"
        return f"SELECT {distinct}{text}{rest}{group}{having}", out

    def _call(self, columns: Columns) -> tuple[str, str]:
        numbers = columns.of_type("int", "bigint", "decimal(8,2)") or ["1"]
        one = self.random.choice(numbers)
        floats = columns.of_type("double")
        forms = ["count(*)", f"count({one})", f"sum({one})", f"min({one})", f"max({one})", f"avg({one})"]
        forms += [f"count(DISTINCT {one})", f"sum({one}) FILTER (WHERE {self._comparison(columns)})"]
        if floats and self.chance(0.3):
            return f"sum({self.random.choice(floats)})", "double"
        return self.random.choice(forms), "number"

    def _window(self, depth: int, rest: str, columns: Columns) -> tuple[str, list[tuple[str, str]]]:
        del depth
        chosen = self._some(columns, 2)
        numbers = columns.of_type("int") or ["1"]
        order = ", ".join(each for each, _ in columns.own)
        for _ in range(self.random.choice([1, 1, 2])):
            one = self._preferred(numbers)
            parts = [one, *([self.random.choice(numbers)] if self.chance(0.2) else [])]
            by = f"PARTITION BY {', '.join(parts)} " if self.chance(0.92) else ""
            calls = [
                f"rank() OVER ({by}ORDER BY {self.random.choice(numbers)})",
                f"count(*) OVER ({by})",
                f"row_number() OVER ({by}ORDER BY {order})",
                f"sum({one}) OVER ({by}ORDER BY {numbers[0]})",
            ]
            chosen.append((self.random.choice(calls), "number"))
        text, out = self._listed(chosen)
        return f"SELECT {text}{rest}", out


def run_case(seed: int) -> Found:
    """One query through a short history; all rules that fit each change."""
    made = Generator(seed)
    text = made.query()
    try:
        view = analyse(text, made.schema, not_null=made.not_null)
        while made.chance(0.7) and not any(view.rules(frozenset({each})) for each in view.tables):
            text = made.query()
            view = analyse(text, made.schema, not_null=made.not_null)
    except NotIncremental as refusal:
        return Found(seed, text, "refused", detail=refusal.reason)
    duck = Duck(made.schema, {each: made.rows(each, 7) for each in made.schema})
    found = Found(seed, text, "equal")
    try:
        _run_history(made, duck, view, text, found)
    finally:
        duck.connection.close()
    return found


def _run_history(made: Generator, duck: Duck, view: Any, text: str, found: Found) -> None:
    try:
        held = duck.full(text)
    except duckdb.Error as error:
        found.outcome, found.detail = "not run", str(error).splitlines()[0]
        return
    for _ in range(_STEPS):
        start = {each: list(rows) for each, rows in duck.now.items()}
        come, go = made.changes(duck.now)
        changed = duck.change(come, go) & frozenset(view.tables)
        try:
            full = duck.full(text)
        except duckdb.Error as error:
            found.outcome, found.detail = "not run", str(error).splitlines()[0]
            return
        for rule in view.rules(changed) if changed else ():
            found.rules[rule.name] += 1
            got: Any
            try:
                got = duck.refreshed(rule, held, view.output)
            except (duckdb.Error, AssertionError, TypeError, NotIncremental) as error:
                got = f"{type(error).__name__}: {error}"
            if isinstance(got, str) or not same(got, full):
                difference = got if isinstance(got, str) else f"too many {got - full}, missing {full - got}"
                found.outcome = "different"
                found.detail = (
                    f"{rule.name} by {rule.key}, on {rule.on}\n{start=}\n{come=}\n{go=}\n{held=}\n{difference}"
                )
                return
        duck.advance()
        held = full


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--cases", type=int, default=1000)
    asked.add_argument("--start", type=int, default=0)
    asked.add_argument("--resume", type=Path)
    options = asked.parse_args()
    begun = int(options.resume.read_text()) if options.resume and options.resume.exists() else options.start
    outcomes: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    for seed in range(begun, begun + options.cases):
        found = run_case(seed)
        outcomes[found.outcome] += 1
        rules += found.rules
        if found.outcome == "different":
            print(f"seed {seed}\n{found.text}\n{found.detail}\n", flush=True)
        if options.resume:
            options.resume.write_text(str(seed + 1))
    print(dict(outcomes), dict(rules))


if __name__ == "__main__":
    main()
