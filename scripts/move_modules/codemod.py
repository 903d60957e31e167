"""Moves and merges the modules of src/tidemill as mapping.py says, and rewrites every reference to them.

    python3 scripts/move_modules/codemod.py WORKTREE [--check]

--check only reports (unplaced files, sizes, collisions, cycles, Spark borders) and writes nothing.
"""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
import subprocess
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

import mapping
from tree import BUILTINS, ROOT, Entity, Module, Ref, Resolver, Tree, bound_by, is_tc, local_import_stmts

HERE = Path(__file__).parent
HEAVY = ("pyspark", "py4j", "delta")


def dotted(target: str) -> str:
    name = target.removesuffix(".__init__") if target != "__init__" else ""
    return f"{ROOT}.{name}" if name else ROOT


def base_of(target: str) -> str:
    return dotted(target).rpartition(".")[2]


class Codemod:
    def __init__(self, work: Path) -> None:
        self.work = work
        self.old = Tree(work / "src")
        self.report: dict[str, list[str]] = defaultdict(list)
        self.target_of: dict[str, str] = {}
        for target, (_, sources) in mapping.TARGETS.items():
            for source in sources:
                if source in self.target_of:
                    raise SystemExit(f"{source} is placed twice")
                self.target_of[source] = target
        self.place()
        self.resolvers = {
            name: Resolver(self.old, m.package, m.tree, set(m.defs) | set(m.imports)) for name, m in self.old.modules.items()
        }
        self.newdef: dict[tuple[str, str], str] = {}
        self.aliases: list[tuple[str, str]] = []
        self.dropped: set[tuple[str, str]] = set()  # definitions that are the same as an earlier one of the target
        self.key_name: dict[str, dict[Entity, str]] = {}
        self.key_runtime: dict[str, dict[Entity, bool]] = {}
        self.order: dict[str, list[str]] = {}
        self.tc_texts: dict[str, list[str]] = {}
        for target in self.targets:
            self.order[target] = self.ordered(target)
            self.name_definitions(target)
        for target in self.targets:
            self.name_imports(target)

    # which module goes where
    def place(self) -> None:
        self.targets = {}
        for name, module in self.old.modules.items():
            if name in self.target_of:
                continue
            if module.is_package and not [d for d in module.defs if d != "__all__"]:
                continue  # a docstring, or names for a door: those are asked for where they are defined
            self.report["unplaced (kept as it is)"].append(f"{name} ({len(module.text.splitlines())} lines)")
            self.target_of[name] = f"{name}.__init__" if module.is_package else name
        for target, (doc, sources) in mapping.TARGETS.items():
            there = [s for s in sources if s in self.old.modules]
            for gone in sorted(set(sources) - set(there)):
                self.report["in the mapping, not in the tree"].append(gone)
            if there:
                self.targets[target] = (doc, there)
        for name, target in self.target_of.items():
            if name in self.old.modules and target not in self.targets:
                self.targets[target] = (None, [name])

    def ordered(self, target: str) -> list[str]:
        sources = self.targets[target][1]
        needs = {s: set() for s in sources}
        for s in sources:
            for b in self.old.modules[s].imports.values():
                if b.tc:
                    continue
                e = self.old.entity(b.entity)
                if e[0] in ("def", "mod") and e[1] in needs and e[1] != s:
                    needs[s].add(e[1])
        out: list[str] = []
        while len(out) < len(sources):
            ready = [s for s in sources if s not in out and needs[s] <= set(out)]
            if not ready:
                raise SystemExit(f"{target}: {needs} import each other")
            out.append(ready[0])
        if out != sources:
            self.report["ordered otherwise"].append(f"{target}: {out}")
        return out

    # names of definitions
    def name_definitions(self, target: str) -> None:
        taken: dict[str, tuple[str, str]] = {}
        imported = self.wanted_names(target)
        for s in self.order[target]:
            module = self.old.modules[s]
            for name, stmt in module.defs.items():
                if name in ("_", "__all__") and not (name == "__all__" and target.endswith("__init__")):
                    self.newdef[s, name] = name
                    continue
                if name in taken and self.same(taken[name], (s, name)):
                    self.newdef[s, name] = self.newdef[taken[name]]
                    self.dropped.add((s, name))
                    self.report["same definition, kept once"].append(f"{target}: {name} of {taken[name][0]} and {s}")
                    continue
                twin = self.alias_of(target, s, name, stmt)
                if twin:
                    self.newdef[s, name] = self.newdef[twin]
                    self.dropped.add((s, name))
                    self.aliases.append((s, name))
                    self.report["alias of its own module"].append(f"{target}: {s}.{name}")
                    continue
                new = mapping.RENAMES.get((s, name), name)
                if (new in taken or (name.startswith("_") and new in imported)) and (s, name) not in mapping.RENAMES:
                    new = self.free_name(s, name, set(taken) | imported)
                    kind = "renamed" if name.startswith("_") else "renamed PUBLIC"
                    self.report[f"collisions: {kind}"].append(f"{target}: {s}.{name} -> {new}")
                elif new in taken:
                    raise SystemExit(f"{target}: {new} is taken")
                taken[new] = (s, name)
                self.newdef[s, name] = new

    def alias_of(self, target: str, source: str, name: str, stmt: ast.stmt) -> tuple[str, str] | None:
        """The definition of the same name that `name = other.name` stands for, where both are now in one module."""
        if not (isinstance(stmt, ast.Assign) and isinstance(stmt.value, (ast.Name, ast.Attribute))):
            return None
        e: Entity | None = None
        for r in self.resolvers[source].refs:
            if r.node is (stmt.value if isinstance(stmt.value, ast.Name) else stmt.value.value) and r.kind == "global":
                e = self.old.global_entity(source, r.name) if r.name in self.old.modules[source].imports else None
                if e and e[0] == "mod" and r.chain:
                    e = self.old.global_entity(e[1], r.chain[0].attr)
        if e and e[0] == "def" and e[2] == name and self.target_of.get(e[1]) == target and e[1] != source:
            return e[1], e[2]
        return None

    def wanted_names(self, target: str) -> set[str]:
        """Names that the sources of a target import from elsewhere."""
        out = set()
        for s in self.targets[target][1]:
            for b in self.old.modules[s].imports.values():
                e = self.old.entity(b.entity)
                if e[0] in ("def", "mod") and self.target_of.get(e[1]) == target:
                    continue
                out.add(b.name)
        return out

    def free_name(self, source: str, name: str, taken: set[str]) -> str:
        stem = source.rpartition(".")[2]
        bare = name.strip("_")
        if bare.isupper():
            new = f"{stem.upper()}_{bare}"
        elif bare[0].isupper():
            new = "".join(p.capitalize() for p in stem.split("_")) + bare
        else:
            new = f"{stem}_{bare}"
        new = "_" + new if name.startswith("_") else new
        if new in taken:
            raise SystemExit(f"no free name for {source}.{name}")
        return new

    def same(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        a, b = (self.old.modules[m].defs[n] for m, n in (one, other))
        if isinstance(a, (ast.Assign, ast.AnnAssign)) and not immutable(a.value):
            return False
        if isinstance(a, ast.ClassDef):
            return False
        if len(bound_by(a)) != 1:
            return False
        return canonical(self.old, one[0], a, {one}) == canonical(self.old, other[0], b, {other})

    # names of imports
    def key(self, target: str | None, entity: Entity) -> Entity:
        """An import as it is in the new tree; ("inner", …) where the thing is in this target itself."""
        if entity[0] == "def":
            t = self.target_of[entity[1]]
            if t == target:
                return ("inner", *entity)
            return ("ours", t, self.new_name(entity[1], entity[2]))
        if entity[0] == "mod":
            if entity[1] in self.target_of:
                t = self.target_of[entity[1]]
                return ("inner", *entity) if t == target else ("oursmod", t)
            return ("oursmod", f"{mapping.ROOMS[entity[1]]}.__init__")
        if entity[0] == "missing":
            raise SystemExit(f"{target}: unknown {entity}")
        return entity

    def new_name(self, mod: str, name: str) -> str:
        return self.newdef.get((mod, name), name)

    def name_imports(self, target: str) -> None:
        taken = {self.newdef[s, n] for s in self.order[target] for n in self.old.modules[s].defs}
        runtime: dict[Entity, bool] = {}
        wishes: dict[Entity, list[str]] = defaultdict(list)
        for s in self.order[target]:
            used = {r.name for r in self.resolvers[s].refs if r.kind == "global"}
            for b in self.old.modules[s].imports.values():
                e = self.old.entity(b.entity, follow=s != "")
                k = self.key(target, e)
                if k[0] == "inner":
                    continue
                if b.name not in used and k[0] == "oursmod":
                    self.report["import for its effect"].append(f"{target}: {s} imports {k[1]}")
                    continue
                runtime[k] = runtime.get(k, False) or not b.tc
                wishes[k].append(self.wish(s, b, k))
        names: dict[Entity, str] = {}
        for k in sorted(runtime, key=lambda k: (k[0] != "ext", k[0] != "ours", str(k))):
            options = wishes[k]
            usual = k[2] if k[0] in ("ext", "ours") else base_of(k[1]) if k[0] == "oursmod" else options[0]
            wish = usual if usual in options else options[0]
            if k[0] == "extmod" and wish in taken and wish in {v for q, v in names.items() if q[0] == "extmod" and q[1].split(".")[0] == wish}:
                names[k] = wish
                continue
            if wish in taken:
                new = f"{base_of(k[1]) if k[0] == 'ours' else k[1].replace('.', '_')}_{k[2] if k[0] in ('ours', 'ext') else 'module'}"
                self.report["collisions: import renamed"].append(f"{target}: {k} as {new} (wanted {wish})")
                wish = new
            taken.add(wish)
            names[k] = wish
        self.key_name[target], self.key_runtime[target] = names, runtime

    def wish(self, source: str, b, k: Entity) -> str:
        if k[0] == "ours":
            written = b.entity[2] if b.entity[0] == "from" else None
            return b.name if b.name != written else k[2]
        if k[0] == "oursmod":
            written = b.entity[2] if b.entity[0] == "from" else None
            usual = base_of(k[1])
            hidden = any(r.name == b.name and usual in r.local_names for r in self.resolvers[source].refs)
            return b.name if b.name != written or hidden else usual
        return b.name

    # what a global name of a source is called in its target
    def renamed_global(self, source: str, name: str, target: str) -> tuple[str, Entity | None]:
        """("name", new) as text, or the inner module that it stood for."""
        module = self.old.modules[source]
        if name in module.defs:
            return self.newdef[source, name], None
        e = self.old.entity(module.imports[name].entity, follow=source != "")
        k = self.key(target, e)
        if k[0] == "inner":
            return (self.newdef[e[1], e[2]], None) if e[0] == "def" else ("", e)
        if k not in self.key_name[target]:
            return name, None
        return self.key_name[target][k], (e if e[0] == "mod" else None)

    def attribute(self, mod: str, attr: str) -> str:
        """What an attribute of an old module is called in its new one."""
        module = self.old.modules[mod]
        if attr in module.defs:
            return self.newdef[mod, attr]
        if attr in module.imports and mod in self.target_of:
            text, inner = self.renamed_global(mod, attr, self.target_of[mod])
            return text or attr
        return attr

    # writing the source of one module
    def edited(self, source: str, target: str) -> str:
        module = self.old.modules[source]
        edits = Edits(module.text)
        inner_target = target
        for r in self.resolvers[source].refs:
            if r.kind == "local":
                continue
            if r.kind == "global":
                if r.name not in module.defs and r.name not in module.imports:
                    if r.name in BUILTINS and r.name in self.all_names(target):
                        self.report["BUILTIN shadowed"].append(f"{target}: {r.name} of {source}")
                    continue
                new, mod_entity = self.renamed_global(source, r.name, target)
            else:
                e = self.old.entity(r.raw)
                if e[0] not in ("def", "mod"):
                    k = e
                else:
                    k = self.key(target, e)
                if k[0] == "inner":
                    new, mod_entity = (self.newdef[e[1], e[2]], None) if e[0] == "def" else ("", e)
                elif self.is_at_hand(target, k):
                    new, mod_entity = self.key_name[target][k], (e if e[0] == "mod" else None)
                else:
                    new, mod_entity = r.name, (e if e[0] == "mod" else None)
            if mod_entity is not None and mod_entity[0] == "mod" and mod_entity[1] != "":
                if r.chain:
                    attr = r.chain[0]
                    renamed = self.attribute(mod_entity[1], attr.attr)
                    text = f"{new}.{renamed}" if new else renamed
                    if text != f"{r.name}.{attr.attr}":
                        if not new and renamed in r.local_names:
                            self.report["CAPTURED by a local name"].append(f"{source}:{r.node.lineno} {r.name}.{attr.attr}")
                        edits.replace(attr, text)
                    continue
                if not new:
                    self.report["module as an object"].append(f"{source}:{r.node.lineno} {r.name}")
                    new = r.name
            if new != r.name:
                if new in r.local_names and r.kind == "global":
                    self.report["CAPTURED by a local name"].append(f"{source}:{r.node.lineno} {r.name} -> {new}")
                edits.replace(r.node, new, r.offset)
        self.edit_definitions(source, edits)
        self.edit_local_imports(source, target, edits)
        edit_strings(self, module.text, module.tree, edits)
        for node in module.tree.body:
            if node is module.docstring_stmt or isinstance(node, (ast.Import, ast.ImportFrom)) or is_tc(node):
                edits.remove(node)
            elif any((source, n) in self.dropped for n in bound_by(node)):
                edits.remove(node)
            elif bound_by(node) == ["__all__"] and not target.endswith("__init__"):
                edits.remove(node)
        for inner in module.tc_body:
            if not any((source, n) in self.dropped for n in bound_by(inner)):
                self.tc_texts[target].append(edits.extract(inner))
        return edits.apply().strip("\n")

    def all_names(self, target: str) -> set[str]:
        return {self.newdef[s, n] for s in self.order[target] for n in self.old.modules[s].defs} | set(
            self.key_name[target].values()
        )

    def edit_definitions(self, source: str, edits: Edits) -> None:
        module = self.old.modules[source]
        for name, stmt in module.defs.items():
            new = self.newdef[source, name]
            if new == name:
                continue
            for node in module.tree.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
                    edits.rename_definition(node, name, new)
        for n in ast.walk(module.tree):
            if isinstance(n, ast.Global):
                names = [self.newdef.get((source, x), x) for x in n.names]
                if names != n.names:
                    edits.replace(n, "global " + ", ".join(names))

    def edit_local_imports(self, source: str, target: str, edits: Edits) -> None:
        module = self.old.modules[source]
        runs: dict[tuple[int, int], list[ast.stmt]] = defaultdict(list)  # imports that stand together
        blocks: dict[int, list[ast.stmt]] = {}
        for stmt, block in local_import_stmts(module.tree):
            first = block.index(stmt)
            while first and isinstance(block[first - 1], (ast.Import, ast.ImportFrom)):
                first -= 1
            runs[id(block), first].append(stmt)
            blocks[id(block)] = block
        for (block_id, _), stmts in runs.items():
            kept: dict[str, list[str]] = defaultdict(list)
            changed: list[ast.stmt] = []
            for stmt in stmts:
                aliases = [(n, self.key(target, self.old.entity(raw))) for n, raw in self.old.aliases(stmt, module.package)]
                stays = [(n, k) for n, k in aliases if not self.is_at_hand(target, k)]
                if len(stays) == len(aliases) and not any(k[0] in ("ours", "oursmod") for _, k in aliases):
                    continue
                changed.append(stmt)
                for n, k in stays:
                    add_import(kept, k, n, self)
            if not changed:
                continue
            comments = [c for c in (edits.comment_after(x) for x in changed) if c]
            lines = import_lines(kept)
            if len(changed) == len(blocks[block_id]) and not lines:
                raise SystemExit(f"{source}:{changed[0].lineno}: nothing is left of the block")
            for stmt in changed:
                edits.remove(stmt)
            if lines:
                first = changed[0]
                told = [max(comments, key=len), *["# noqa: PLC0415"] * (len(lines) - 1)] if comments else [""] * len(lines)
                text = "".join(f"{' ' * first.col_offset}{x.replace('(', '').replace(')', '')}  {c}\n" for x, c in zip(lines, told))
                edits.remove(first, text)

    def is_at_hand(self, target: str, k: Entity) -> bool:
        """Whether what a function imports is a global name of its module anyway."""
        if k[0] == "inner":
            return True
        return k in self.key_name[target] and self.key_runtime[target][k] and k[0] != "extmod"

    def module_text(self, target: str) -> str:
        doc, _ = self.targets[target]
        self.tc_texts[target] = []
        parts = [self.edited(s, target) for s in self.order[target]]
        if doc is None:
            doc = ast.get_docstring(self.old.modules[self.order[target][0]].tree, clean=False)
            doc = map_text(self, doc) if doc else doc
        runtime: dict[str, list[str]] = defaultdict(list)
        tc: dict[str, list[str]] = defaultdict(list)
        for k, name in self.key_name[target].items():
            add_import(runtime if self.key_runtime[target][k] else tc, k, name, self)
        if doc and "\n" in doc and not doc.endswith("\n"):
            doc += "\n"
        out = [f'"""{doc}"""' if doc else ""]
        if any("from __future__ import annotations" in self.old.modules[s].text for s in self.order[target]):
            out.append("from __future__ import annotations")
        if tc or self.tc_texts[target]:
            runtime["typing"].append("TYPE_CHECKING")
        lines = import_lines(runtime)
        if tc or self.tc_texts[target]:
            inside = ["    " + line for line in import_lines(tc)] + self.tc_texts[target]
            lines.append("if TYPE_CHECKING:\n" + "\n".join(inside))
        out.append("\n".join(lines))
        out.extend(parts)
        text = "\n\n".join(p for p in out if p) + "\n"
        for t, old, new in mapping.PATCHES:
            if t == target:
                if text.count(old) != 1:
                    self.report["PATCH does not fit"].append(f"{target}: {old!r} occurs {text.count(old)} times")
                text = text.replace(old, new)
        return text

    # files outside of src
    def outside(self, path: Path) -> str:
        text = path.read_text()
        tree = ast.parse(text)
        edits = Edits(text)
        module = Module("?", path, False, text)
        module.name = "?"
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
            a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)
        } | {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        for n in ast.walk(tree):
            if isinstance(n, (ast.Import, ast.ImportFrom)) and not getattr(n, "level", 0):
                names.update(a.asname or a.name for a in n.names)
        locals_: dict[str, tuple[Entity, str]] = {}  # local name of a module of ours -> entity, new local name
        stmts = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) and not getattr(n, "level", 0)]
        for stmt in stmts:
            aliases = self.old.aliases(stmt, "?")
            if not any(raw[0] in ("from", "mod") for _, raw in aliases):
                continue
            kept: dict[str, list[str]] = defaultdict(list)
            for local, raw in aliases:
                door = raw[0] == "from" and raw[1] in self.target_of and raw[1] in self.old.modules and self.old.modules[raw[1]].is_package
                e = self.old.entity(raw, follow=not door)
                if raw == ("mod", ""):
                    kept[""].append(ast.unparse(stmt))
                    locals_[local] = (e, local)
                    continue
                k = self.key(None, e)
                if e[0] == "def" and e[1] and e[2] not in self.old.modules[e[1]].defs:
                    k = ("ours", self.target_of[e[1]], self.attribute(e[1], e[2]))
                new = local
                if k[0] == "oursmod":
                    usual = base_of(k[1])
                    written = raw[2] if raw[0] == "from" else None
                    if local == written and usual != local and (usual not in names or locals_.get(usual)):
                        new = usual
                    locals_[local] = (e, new)
                add_import(kept, k, new, self)
            lines = [f"from {m} import {', '.join(sorted(set(n)))}" if m else n[0] for m, n in kept.items()]
            indent = " " * stmt.col_offset
            comment = edits.comment_after(stmt)
            joiner = f"  {comment}\n{indent}" if comment else f"\n{indent}"
            new_text = joiner.join(lines)
            if new_text != ast.unparse(stmt):
                edits.replace(stmt, new_text)
        resolver = Resolver(self.old, "?", tree, set())
        for r in resolver.refs:
            if r.kind == "local" or r.name not in locals_:
                continue
            e, new = locals_[r.name]
            self.edit_chain(r, e, new, edits)
        for n in ast.walk(tree):
            if (
                isinstance(n, ast.Call)
                and isinstance(n.func, ast.Attribute)
                and n.func.attr in ("setattr", "getattr", "delattr")
                and len(n.args) >= 2
                and isinstance(n.args[0], ast.Name)
                and n.args[0].id in locals_
                and isinstance(n.args[1], ast.Constant)
            ):
                e, _ = locals_[n.args[0].id]
                attr = n.args[1].value
                if e[1] and self.attribute(e[1], attr) != attr:
                    edits.replace(n.args[1], f'"{self.attribute(e[1], attr)}"')
        edit_strings(self, text, tree, edits)
        return edits.apply()

    def edit_chain(self, r: Ref, e: Entity, new: str, edits: Edits) -> None:
        chain = list(r.chain)
        if e == ("mod", ""):
            walked, mod = [], ""
            while chain:
                nxt = self.old.global_entity(mod, chain[0].attr, follow=False)
                if nxt and nxt[0] == "mod":
                    mod = nxt[1]
                    walked.append(chain.pop(0))
                    continue
                break
            if not walked or mod not in self.target_of:
                return
            attr = chain[0] if chain else None
            text = dotted(self.target_of[mod]) + (f".{self.attribute(mod, attr.attr)}" if attr else "")
            node = attr or walked[-1]
            if text != ast.unparse(node):
                edits.replace(node, text)
            return
        if chain and e[1] in self.old.modules:
            attr = chain[0]
            text = f"{new}.{self.attribute(e[1], attr.attr)}"
            if text != f"{r.name}.{attr.attr}":
                edits.replace(attr, text)
        elif new != r.name:
            edits.replace(r.node, new)


def add_import(into: dict[str, list[str]], k: Entity, local: str, mod: Codemod) -> None:
    if k[0] == "ours":
        into[dotted(k[1])].append(k[2] if k[2] == local else f"{k[2]} as {local}")
    elif k[0] == "oursmod":
        package, _, name = dotted(k[1]).rpartition(".")
        into[package].append(name if name == local else f"{name} as {local}")
    elif k[0] == "ext":
        into[k[1]].append(k[2] if k[2] == local else f"{k[2]} as {local}")
    else:
        into[f"\0{k[1]}"] = []
        into[""] += [f"import {k[1]}" + (f" as {local}" if k[2] else "")]


def import_lines(found: dict[str, list[str]]) -> list[str]:
    lines = sorted(set(found.get("", [])))
    for m, names in sorted(found.items()):
        if m and not m.startswith("\0"):
            lines.append(f"from {m} import ({', '.join(sorted(set(names)))})")
    return lines


def immutable(value: ast.expr | None) -> bool:
    if value is None:
        return False
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in (
            "TypeVar", "logging.getLogger", "re.compile", "timedelta", "date", "datetime", "frozenset", "dt.timedelta",
        )  # fmt: skip
    return not any(isinstance(n, (ast.List, ast.Dict, ast.Set, ast.Call, ast.ListComp, ast.DictComp)) for n in ast.walk(value))


# texts that name modules
_NAME = re.compile(r"\btidemill((?:\.[A-Za-z_]\w*)+)")
_PATH = re.compile(r"\b(src/tidemill/|(?<![\w/.])tidemill/)([a-z_]+(?:/[a-z_]+)*)(\.py|/)")


def map_text(mod: Codemod, text: str) -> str:
    def name(m: re.Match[str]) -> str:
        parts = m[1][1:].split(".")
        for n in range(len(parts), 0, -1):
            old = ".".join(parts[:n])
            rest = parts[n:]
            if old in mod.target_of and old in mod.old.modules:
                new = dotted(mod.target_of[old])
                if rest:
                    rest[0] = mod.attribute(old, rest[0])
                return ".".join([new, *rest])
            if old in mapping.ROOMS and not rest:
                return f"{ROOT}.{mapping.ROOMS[old]}"
        return m[0]

    def path(m: re.Match[str]) -> str:
        old = m[2].replace("/", ".")
        if m[3] == ".py" and old in mod.target_of:
            return m[1] + dotted(mod.target_of[old])[len(ROOT) + 1 :].replace(".", "/") + ".py"
        if m[3] == "/" and old in mapping.ROOMS:
            return m[1] + mapping.ROOMS[old].replace(".", "/") + "/"
        return m[0]

    return _PATH.sub(path, _NAME.sub(name, text))


def edit_strings(mod: Codemod, text: str, tree: ast.Module, edits: Edits) -> None:
    """Module names in string literals and comments."""
    for tok in tokenize.generate_tokens(io.StringIO(text).readline):
        if tok.type in (tokenize.STRING, tokenize.COMMENT) or (
            hasattr(tokenize, "FSTRING_MIDDLE") and tok.type == tokenize.FSTRING_MIDDLE
        ):
            if tok.type == getattr(tokenize, "FSTRING_MIDDLE", -1) and ("{" in tok.string or "}" in tok.string):
                continue
            new = map_text(mod, tok.string)
            if tok.type == tokenize.STRING and "import" in new and "tidemill" in new:
                new = map_code_in_string(mod, new, tok.string)
            if new != tok.string:
                mod.report["texts"].append(f"{tok.start[0]}: {tok.string[:100]!r} -> {new[:100]!r}")
                edits.replace_span(tok.start, tok.end, new)


_FROM = re.compile(r"from tidemill((?:\.\w+)*) import ([\w, ]+)")


def map_code_in_string(mod: Codemod, mapped: str, original: str) -> str:
    """Imports in programs that tests keep as strings."""

    def one(m: re.Match[str]) -> str:
        old = m[1][1:]
        kept: dict[str, list[str]] = defaultdict(list)
        for piece in m[2].split(","):
            n, _, local = piece.strip().partition(" as ")
            e = mod.old.entity(("from", old, n.strip()))
            if e[0] == "missing":
                return m[0]
            add_import(kept, mod.key(None, e), (local or n).strip(), mod)
        tail = m[2][len(m[2].rstrip()) :]
        return "; ".join(f"from {k} import {', '.join(v)}" for k, v in kept.items() if k) + tail

    if not _FROM.search(original):
        return mapped
    pieces, last = [], 0
    for m in _FROM.finditer(original):
        pieces.append(map_text(mod, original[last : m.start()]))
        pieces.append(one(m))
        last = m.end()
    pieces.append(map_text(mod, original[last:]))
    return "".join(pieces)


class Edits:
    def __init__(self, text: str) -> None:
        self.lines = text.encode().splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.text = text.encode()
        self.edits: dict[tuple[int, int], bytes] = {}

    def at(self, line: int, col: int) -> int:
        return self.starts[line - 1] + col

    def replace(self, node: ast.AST, text: str, offset: tuple[int, int] | None = None) -> None:
        if offset:
            start = self.at(offset[0], offset[1] + node.col_offset)
            end = self.at(offset[0], offset[1] + node.end_col_offset)
        else:
            start, end = self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)
        self.edits[start, end] = text.encode()

    def replace_span(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        def position(p: tuple[int, int]) -> int:
            line = self.lines[p[0] - 1].decode()
            return self.at(p[0], len(line[: p[1]].encode()))

        self.edits[position(start), position(end)] = text.encode()

    def rename_definition(self, node: ast.stmt, name: str, new: str) -> None:
        start = self.at(node.lineno, node.col_offset)
        found = re.compile(rb"(?:async\s+def|def|class)\s+" + name.encode() + rb"\b").match(self.text, start)
        assert found, (name, node.lineno)
        self.edits[found.end() - len(name.encode()), found.end()] = new.encode()

    def comment_after(self, node: ast.stmt) -> str:
        rest = self.lines[node.end_lineno - 1][node.end_col_offset :].decode().strip()
        return rest if rest.startswith("#") else ""

    def remove(self, node: ast.stmt, text: str = "") -> None:
        first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", [])]])
        self.edits[self.starts[first - 1], self.starts[node.end_lineno]] = text.encode()

    def extract(self, node: ast.stmt) -> str:
        """The lines of a statement with their edits; they no longer count where they stood."""
        first, end = self.starts[node.lineno - 1], self.starts[node.end_lineno]
        part = Edits("")
        part.text = self.text[first:end]
        part.edits = {(a - first, b - first): v for (a, b), v in self.edits.items() if v and first <= a and b <= end}
        return part.apply().rstrip("\n")

    def apply(self) -> str:
        out, last = [], 0
        removed = [k for k, v in self.edits.items() if not v]
        for (start, end), new in sorted(self.edits.items()):
            if any(a <= start and end <= b and (a, b) != (start, end) for a, b in removed):
                continue
            if start < last:
                # an edit inside of a larger one, such as a string inside of a replaced expression
                raise SystemExit(f"edits overlap at byte {start}: {self.text[start:end]!r} -> {new!r}")
            out += [self.text[last:start], new]
            last = end
        out.append(self.text[last:])
        return b"".join(out).decode()


# what a statement means, whatever its names are called
def canonical(tree: Tree, module: str, stmt: ast.stmt, own: set[tuple[str, str]], back=None, texts=None) -> str:
    """A dump of a statement in which every global name stands for the thing that it refers to."""
    m = tree.modules[module]
    holder = ast.Module(body=[stmt], type_ignores=[])
    resolver = Resolver(tree, m.package, holder, set())
    labels: dict[int, str] = {}
    gone: set[int] = set()

    def label(e: Entity) -> str:
        if e[0] == "def" and (e[1], e[2]) in own:
            return "<self>"
        if e[0] == "extmod" and not e[2]:
            e = ("extmod", e[1].split(".")[0], None)
        return str(back(e) if back else e)

    for r in resolver.refs:
        if r.kind == "local":
            continue
        if r.kind == "limport":
            e = tree.entity(r.raw)
        else:
            e = tree.global_entity(module, r.name) if r.name in m.defs or r.name in m.imports else None
        if e is None:
            continue
        chain = list(r.chain)
        node: ast.expr = r.node
        while e[0] == "mod" and chain:
            nxt = tree.global_entity(e[1], chain[0].attr)
            if nxt is None:
                break
            node, e = chain.pop(0), nxt
        labels[id(node)] = label(e)
        if r.offset:
            labels[id(node)] = "text:" + labels[id(node)]
    for s, _ in local_import_stmts(holder):
        gone.add(id(s))

    def dump(n) -> str:
        if isinstance(n, ast.AST):
            if id(n) in labels:
                return f"<{labels[id(n)]}>"
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "cast":
                return f"cast({', '.join(dump(a) for a in n.args[1:])})"
            fields = []
            for f, v in ast.iter_fields(n):
                if f in ("ctx", "type_comment", "kind"):
                    continue
                if f == "name" and isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n is stmt:
                    v = "<self>" if (module, n.name) in own else v
                if isinstance(v, list):
                    v = [x for x in v if id(x) not in gone]
                if isinstance(n, ast.Global):
                    v = sorted(label(tree.global_entity(module, x)) for x in v)
                fields.append(f"{f}={dump(v)}")
            return f"{type(n).__name__}({', '.join(fields)})"
        if isinstance(n, list):
            return "[" + ", ".join(dump(x) for x in n) + "]"
        if isinstance(n, str) and texts:
            return repr(texts(n))
        return repr(n)

    return dump(stmt)


def main() -> None:
    work = Path(sys.argv[1]).resolve()
    mod = Codemod(work)
    run = HERE / "run" / work.name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    shutil.copytree(work / "src", run / "old" / "src", ignore=shutil.ignore_patterns("__pycache__"))
    texts = {t: mod.module_text(t) for t in mod.targets}
    outside: dict[Path, str] = {}
    for room in ("tests", "benchmarks", "scripts", "examples", "docs"):
        for path in sorted((work / room).rglob("*.py")):
            outside[path] = mod.outside(path)
    for path in [work / "hatch_build.py"]:
        outside[path] = mod.outside(path)
    for path in [*work.glob("*.md"), *(work / "docs").rglob("*.md"), work / "Makefile", work / "Dockerfile"]:
        old = path.read_text()
        new = map_text(mod, old)
        if new != old:
            mod.report["documents"].append(str(path.relative_to(work)))
            outside[path] = new
    for name, old, new in mapping.OUTSIDE_PATCHES:
        path = work / name
        text = outside.get(path) or path.read_text()
        if text.count(old) != 1:
            mod.report["PATCH does not fit"].append(f"{name}: {old!r} occurs {text.count(old)} times")
        outside[path] = text.replace(old, new)
    guide = work / "CONTRIBUTING.md"
    head, rule, rest = (outside.get(guide) or guide.read_text()).partition("|---|---|\n")
    outside[guide] = head + rule + mapping.CONTRIBUTING.lstrip() + "\n" + rest.partition("\n\n")[2]
    project = work / "pyproject.toml"
    text = project.read_text()
    head, _, _ = text.partition("[[tool.importlinter.contracts]]")
    outside[project] = map_text(mod, head) + mapping.LINTER.strip() + "\n"
    src = work / "src" / ROOT
    for module in mod.old.modules.values():
        module.path.unlink()
    for old_file, new_file in mapping.DATA_FILES.items():
        (src / new_file).parent.mkdir(parents=True, exist_ok=True)
        (src / old_file).rename(src / new_file)
    for target, new in texts.items():
        path = src / (target.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new)
    for target in mod.targets:
        parts = target.split(".")[:-1]
        for n in range(1, len(parts) + 1):
            package = ".".join(parts[:n])
            init = src.joinpath(*parts[:n], "__init__.py")
            if not init.exists():
                old = mod.old.modules.get(package)  # of an unplaced module, which stays in its old room
                doc = mapping.PACKAGES.get(package) or (old and ast.get_docstring(old.tree)) or package
                init.write_text(f'"""{doc}"""\n' if "\n" not in doc else f'"""{doc}\n"""\n')
    for path, new in outside.items():
        if path.read_text() != new:
            path.write_text(new)
    for folder in sorted((p for p in src.rglob("*") if p.is_dir()), reverse=True):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    (run / "manifest.json").write_text(
        json.dumps({"names": [[*k, mod.target_of[k[0]], v] for k, v in mod.newdef.items()], "targets": mod.target_of, "aliases": mod.aliases})
    )
    with (run / "report.txt").open("w") as out:
        for k, v in sorted(mod.report.items()):
            print(f"== {k}: {len(v)}", file=out)
            for x in v:
                print("   ", x, file=out)
    ruff = work.parent / "ruff" if (work.parent / "ruff").exists() else Path(sys.prefix) / "bin" / "ruff"
    places = ["src", "tests", "benchmarks", "scripts", "examples"]
    subprocess.run([ruff, "check", "-q", "--fix", "--unsafe-fixes", "--select", "I,TC,F401", *places], cwd=work, check=False)
    subprocess.run([ruff, "check", "-q", "--fix", "--fixable", "I,RUF022,RUF100,D202", "--exit-zero", "--output-format", "concise", *places], cwd=work, check=False, stdout=subprocess.DEVNULL)
    subprocess.run([ruff, "format", "-q", *places], cwd=work, check=True)
    print((run / "report.txt").read_text())


if __name__ == "__main__":
    main()
