"""Proves that the codemod moved code and changed none: run after codemod.py, on the same worktree.

    python3 scripts/move_modules/proof.py WORKTREE

Both trees are read again. Of every statement of every module (functions, classes, constants), every global name is
replaced by the thing that it refers to, as the old tree names it; imports in functions count for what they bind.
Then each statement of the old tree must be in the module that the manifest says, and the new tree may hold no other.
"""

import ast
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import codemod
import mapping
from tree import Tree, bound_by

RUN = Path(__file__).parent / "run" / Path(sys.argv[1]).resolve().name
old = Tree(RUN / "old" / "src")
new = Tree(Path(sys.argv[1]) / "src")
manifest = json.loads((RUN / "manifest.json").read_text())
module_name = {t: (codemod.dotted(t)[len("tidemill") + 1 :]) for t in manifest["targets"].values()}
target_of = {m: module_name[t] for m, t in manifest["targets"].items()}
new_of = {(m, n): (module_name[t], v) for m, n, t, v in manifest["names"]}
olds_of: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
for k, v in new_of.items():
    olds_of[v].append(k)
mapper = codemod.Codemod(RUN / "old")


def forward(e):
    """A thing of the old tree, as the new one names it."""
    if e[0] == "def":
        return ("def", *new_of.get((e[1], e[2]), (target_of.get(e[1], e[1]), e[2])))
    if e[0] == "mod":
        return ("mod", target_of.get(e[1]) or mapping_room(e[1]))
    return e


def mapping_room(name):
    import mapping

    return mapping.ROOMS.get(name, name)


def statements(tree, module, back, texts):
    m = tree.modules[module]
    for stmt in m.body():
        if bound_by(stmt) == ["__all__"] or (tree is old and [[module, n] for n in bound_by(stmt)] and [module, bound_by(stmt)[0]] in manifest["aliases"]):
            continue  # names of a door, or `name = other.name` where both are now in one module
        yield stmt, codemod.canonical(tree, module, stmt, set(), back, texts)


def named(dump, stmt, module):
    """The name in a definition itself, as the new tree has it."""
    if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        to = new_of.get((module, stmt.name), (None, stmt.name))[1]
        return dump.replace(f"name='{stmt.name}'", f"name='{to}'", 1)
    return dump


texts = lambda s: codemod.map_text(mapper, s)  # noqa: E731
want: Counter = Counter()
where: dict = {}
functions = 0
for name in old.modules:
    for stmt, dump in statements(old, name, forward, texts):
        dump = named(dump, stmt, name)
        key = (target_of.get(name, "?" + name), dump)
        want[key] += 1
        where[key] = f"{name}:{stmt.lineno} {bound_by(stmt)}"
        functions += sum(isinstance(n, (ast.FunctionDef, ast.ClassDef)) for n in ast.walk(stmt))
have: Counter = Counter()
there: dict = {}
for name in new.modules:
    for stmt, dump in statements(new, name, None, None):
        have[name, dump] += 1
        there[name, dump] = f"{name}:{stmt.lineno} {bound_by(stmt)}"
lost, added = want - have, have - want
known = 0
for key, n in list(lost.items()):
    if key in have:  # the same statement twice in one target: kept once
        known += n
        del lost[key]
print(f"{sum(want.values())} statements with {functions} functions and classes in {len(old.modules)} modules")
print(f"-> {sum(have.values())} statements in {len(new.modules)} modules; {known} were there twice and are kept once")
for key in list(lost):
    if any(where[key].startswith(f"{m}:") and n in where[key] for m, n in mapping.PATCHED):
        print("patched by hand:", where[key])
        twin = next(k for k in added if k[0] == key[0])
        del lost[key], added[twin]
for key in lost:
    print("LOST ", where[key])
for key in added:
    print("ADDED", there[key])
# every import of ours outside of src, also those in programs that tests keep as strings
import re  # noqa: E402

wrong = 0
work = Path(sys.argv[1])
for path in [p for room in ("tests", "benchmarks", "scripts", "examples", "docs") for p in (work / room).rglob("*") if p.suffix in (".py", ".md")]:
    text = path.read_text()
    for m in re.finditer(r"from (tidemill[\w.]*) import ([\w ,]+|\([^)]*\))", text):
        for piece in re.sub(r"#.*", "", m[2].strip("()")).split(","):
            name = piece.strip().split(" as ")[0].split("\n")[0].strip()
            if name and new.entity(("from", m[1][9:], name))[0] == "missing":
                wrong += 1
                print("UNRESOLVED", path.relative_to(work), m[0][:90].replace("\n", " "), "->", name)
    for m in re.finditer(r"\btidemill(?:\.[a-z_]+)+\b", text):
        first = m[0].split(".")[1]
        if first in {n.split(".")[0] for n in old.modules if n} - {n.split(".")[0] for n in new.modules if n}:
            wrong += 1
            print("OLD NAME", path.relative_to(work), m[0])
print("references from outside of src:", "all resolve" if not wrong else f"{wrong} do not")

if lost or added or wrong:
    sys.exit(f"{len(lost)} lost, {len(added)} added, {wrong} unresolved")
print("Nothing is lost, nothing is added, nothing is changed but names of modules and of what they renamed.")
