"""Bugs planted in the rules, each in a process of its own: the fuzzer has to find every one within 200 cases.

python tests/ivm/mutants.py              # all; `make mutants`
python tests/ivm/mutants.py NAME …       # some
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

MOST_CASES = 200


@dataclass(frozen=True)
class Mutant:
    """In a module's source this text, which stands there once, is exchanged for another."""

    module: str
    text: str
    instead: str


MUTANTS = {
    "old and new exchanged": Mutant(
        "rules",
        "sql.with_sign(self._rows(names, near, old=True), self.body.output, -1)",
        "sql.with_sign(self._rows(names, near, old=False), self.body.output, -1)",
    ),
    "= for <=>": Mutant("rendering", "exp.NullSafeEQ(this=of(", "exp.EQ(this=of("),
    "sign lost": Mutant("linear", "exp.alias_(weight, WEIGHT)", "exp.alias_(exp.Literal.number(1), WEIGHT)"),
    "changes added instead of taken back": Mutant("rendering", 'exp.Neg(this=of("_d", WEIGHT))', 'of("_d", WEIGHT)'),
    "copies lost": Mutant("rendering", "end=exp.column(COUNT, quoted=True)", "end=exp.Literal.number(1)"),
    "padded column keeps the key": Mutant(
        "pieces",
        "reached = replace(reached, weak=reached.weak | tied.columns, cuts=cuts)",
        "reached = replace(reached, alive=reached.alive | tied.alive, cuts=cuts)",
    ),
    "padded side tied by anything": Mutant(
        "pieces",
        "    if one.type != kind:\n        return False\n    return any(",
        "    if one.type == kind:\n        return True\n    return any(",
    ),
    "outer ON equates kept columns": Mutant(
        "pieces",
        """for each in joins if each.kind == "inner")]
        conditions = [*where, *(part for each in joins if each.kind == "inner" for part in each.on)]
        padded = {each.source for each in joins if each.kind == "left"}""",
        """for each in joins)]
        conditions = [*where, *(part for each in joins for part in each.on)]
        padded = set()""",
    ),
    "right join keeps the left key": Mutant(
        "pieces", "yield _Class(kept.type, kept.alive, weak,", "yield _Class(kept.type, kept.alive | tied.alive, weak,"
    ),
    "full join keeps one side's key": Mutant(
        "pieces",
        "alive = frozenset(a | b for a in one.alive for b in other.alive)",
        "alive = one.alive",
    ),
    "any group": Mutant("pieces", "if block.is_aggregate and not any(", "if block.is_aggregate and False and not any("),
    "any window": Mutant("pieces", "return all(any(found.has(self", "return True or all(any(found.has(self"),
    "any distinct": Mutant("pieces", "if block.is_distinct and not outer and not out:", "if False:"),
    "any set operation": Mutant("pieces", "if not out and not outer and not block.is_union_all:", "if False:"),
    "key at another place of the branch": Mutant(
        "pieces", "if mine in left.out and other in right.out)", "if mine in left.out or other in right.out)"
    ),
    "NOT IN like IN": Mutant("pieces", "if not (test.asserted or (found.solid and pieces.solid)):", "if False:"),
    "NULLs among tested values": Mutant("pieces", "found.solid and pieces.solid", "found.solid"),
    "any subquery": Mutant(
        "pieces",
        "            if tied is None:\n                return None\n            cuts.update(tied.cuts)",
        "            tied = tied or next(iter(self.pieces(test.block)), found)\n            cuts.update(tied.cuts)",
    ),
    "OR like AND": Mutant(
        "blocks", "if isinstance(condition, exp.And):", "if isinstance(condition, exp.And | exp.Or):"
    ),
    "keys of new images alone": Mutant(
        "rules",
        "return exp.Select(expressions=named, from_=exp.From(this=changes))",
        'return exp.Select(expressions=named, from_=exp.From(this=changes)).where("__w > 0")',
    ),
    "keys of one occurrence": Mutant(
        "rules", "for number in sorted(self.changed)]", "for number in sorted(self.changed)[:1]]"
    ),
    "rows outside of the keys": Mutant("rules", "        if not self.on:\n", "        if self.on or not self.on:\n"),
    "unchanged branch kept": Mutant(
        "linear",
        "parts = [_weighted(each, changed) for each in sides]",
        "parts = [*(_weighted(each, changed) for each in sides), block.right.node.select('1 AS __w')]",
    ),
    "padded side is linear": Mutant("linear", "if is_padded(block, source):", "if False:"),
    "changed subquery is linear": Mutant("linear", "if numbers_in(test.block) & changed:", "if False:"),
    "changed groups are linear": Mutant("linear", "if block.is_aggregate:", "if False:"),
    "changed distinct is linear": Mutant("linear", "if block.is_distinct:", "if False:"),
    "changed windows are linear": Mutant("linear", "if block.windows:", "if False:"),
    "groups decided by a changed query": Mutant(
        "grouped", 'return test.place == "value" and bool(', "return False and bool("
    ),
    "partitions not shared": Mutant("grouped", "if any(value not in (each", "if False and any(value not in (each"),
    "new where old is meant": Mutant("telescope", "self.term(group, left - group)", "self.term(group, frozenset())"),
    "new rows for old tables": Mutant("rules", "names.before(each.table) if number", "names.now(each.table) if number"),
    "new cuts for old tables": Mutant("rules", "was = number in self.body.before or (", "was = ("),
    "nulls are counted": Mutant("sums", "weight.copy()).else_(", "weight.copy()).else_(weight.copy()) if True else ("),
    "sums without signs": Mutant("sums", ".else_(exp.Neg(this=value.copy()))", ".else_(value.copy())"),
    "rows without signs": Mutant("sums", "_or_zero(exp.Sum(this=sql.column(WEIGHT)))", "exp.Count(this=exp.Star())"),
    "a sum of nothing is 0": Mutant("sums", "some = exp.GT(this=", "some = exp.GTE(this="),
    "FILTER lost": Mutant("sums", "if condition is not None else value.copy()", "if False else value.copy()"),
    "HAVING lost": Mutant("sums", 'if having := self.totals.block.node.args.get("having"):', "if having := None:"),
    "held state lost": Mutant("sums", "sql.all_of([held, came])", "sql.all_of([came])"),
}


class _Loader(SourceFileLoader):
    """Reads the module with the bug in it, and no bytecode."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        source = Path(path).read_text()
        if source.count(self.mutant.text) != 1:
            sys.exit(f"the text to exchange stands {source.count(self.mutant.text)} times in {path}")
        return compile(source.replace(self.mutant.text, self.mutant.instead), path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != f"tidemill.ivm.{self.mutant.module}":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self.mutant)
        return spec


def run_mutant(name: str, start: int = 0) -> int | None:
    """After how many cases the fuzzer finds it, in this very process; None if it does not."""
    sys.meta_path.insert(0, _Finder(MUTANTS[name]))
    import fuzz  # noqa: PLC0415 - after the bug was planted

    for count in range(MOST_CASES):
        if fuzz.run_case(start + count).outcome == "different":
            return count + 1
    return None


def survives(name: str) -> bool:
    """In a process of its own."""
    command = [sys.executable, __file__, "--one", name]
    return subprocess.run(command, check=False).returncode != 0


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        found = run_mutant(sys.argv[2])
        print(f"{sys.argv[2]}: {f'found after {found} cases' if found else 'NOT FOUND'}", flush=True)
        sys.exit(found is None)
    alive = [name for name in sys.argv[1:] or MUTANTS if survives(name)]
    sys.exit(f"not found: {', '.join(alive)}" if alive else 0)


if __name__ == "__main__":
    main()
