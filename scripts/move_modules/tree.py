"""Reads a package's modules: what each binds, and what every name in it refers to."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

ROOT = "tidemill"
Entity = tuple  # ("def", module, name) | ("mod", module) | ("ext", module, name) | ("extmod", module, asname)
BUILTINS = set(dir(builtins))


def is_tc(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@dataclass
class Binding:
    name: str
    entity: Entity
    tc: bool
    stmt: ast.stmt


@dataclass
class Module:
    name: str  # relative to the root: "" is the root itself
    path: Path
    is_package: bool
    text: str
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        self.imports: dict[str, Binding] = {}
        self.import_stmts: list[tuple[ast.stmt, bool]] = []
        self.defs: dict[str, ast.stmt] = {}
        self.tc_body: list[ast.stmt] = []
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.import_stmts.append((node, False))
            elif is_tc(node):
                for inner in node.body:
                    if isinstance(inner, (ast.Import, ast.ImportFrom)):
                        self.import_stmts.append((inner, True))
                        continue
                    self.tc_body.append(inner)
                    for name in bound_by(inner):
                        self.defs.setdefault(name, inner)
            else:
                for name in bound_by(node):
                    self.defs.setdefault(name, node)

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def docstring_stmt(self) -> ast.stmt | None:
        first = self.tree.body[0] if self.tree.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            return first
        return None

    def body(self) -> list[ast.stmt]:
        doc = self.docstring_stmt
        return self.tc_body + [
            n
            for n in self.tree.body
            if n is not doc and not isinstance(n, (ast.Import, ast.ImportFrom)) and not is_tc(n)
        ]


def bound_by(node: ast.AST, into_scopes: bool = False) -> list[str]:
    """Names that a statement binds in the scope it stands in."""
    found: list[str] = []

    def visit(n: ast.AST) -> None:
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(n.name)
            for d in n.decorator_list:
                visit(d)
            if not isinstance(n, ast.ClassDef):
                for d in [*n.args.defaults, *[x for x in n.args.kw_defaults if x]]:
                    visit(d)
            return
        if isinstance(n, ast.Lambda):
            return
        if isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            for sub in ast.walk(n):
                if isinstance(sub, ast.NamedExpr):
                    found.append(sub.target.id)
            return
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            found.append(n.id)
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            for a in n.names:
                found.append(a.asname or a.name.split(".")[0])
            return
        if isinstance(n, ast.ExceptHandler) and n.name:
            found.append(n.name)
        if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
            found.append(n.name)
        if isinstance(n, ast.MatchMapping) and n.rest:
            found.append(n.rest)
        for child in ast.iter_child_nodes(n):
            visit(child)

    visit(node)
    return list(dict.fromkeys(found))


class Tree:
    def __init__(self, src: Path) -> None:
        self.src = src
        self.modules: dict[str, Module] = {}
        root = src / ROOT
        for path in sorted(root.rglob("*.py")):
            parts = list(path.relative_to(root).with_suffix("").parts)
            package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if package else parts)
            self.modules[name] = Module(name, path, package, path.read_text())
        for module in self.modules.values():
            self.bind(module)

    def bind(self, module: Module) -> None:
        for stmt, tc in module.import_stmts:
            for alias_name, entity in self.aliases(stmt, module.package):
                if entity == ("ext", "__future__", "annotations") or entity == ("ext", "typing", "TYPE_CHECKING"):
                    continue
                old = module.imports.get(alias_name)
                if old and not old.tc:
                    continue
                module.imports[alias_name] = Binding(alias_name, entity, tc, stmt)

    def aliases(self, stmt: ast.stmt, package: str) -> list[tuple[str, Entity]]:
        """(local name, entity as written) for each alias; `raw` entities of ours are ("from", module, name) or ("mod", m)."""
        out = []
        if isinstance(stmt, ast.Import):
            for a in stmt.names:
                if a.name == ROOT or a.name.startswith(ROOT + "."):
                    if a.asname:
                        out.append((a.asname, ("mod", a.name[len(ROOT) + 1 :])))
                    else:
                        out.append((ROOT, ("mod", "")))
                else:
                    out.append((a.asname or a.name.split(".")[0], ("extmod", a.name, a.asname)))
            return out
        assert isinstance(stmt, ast.ImportFrom)
        if stmt.level:
            base = package.split(".") if package else []
            base = base[: len(base) - (stmt.level - 1)]
            full = ".".join([*base, *(stmt.module.split(".") if stmt.module else [])])
            ours = True
        else:
            ours = stmt.module == ROOT or stmt.module.startswith(ROOT + ".")
            full = stmt.module[len(ROOT) + 1 :] if ours else stmt.module
        for a in stmt.names:
            out.append((a.asname or a.name, ("from", full, a.name) if ours else ("ext", full, a.name)))
        return out

    def entity(self, raw: Entity, follow: bool = True) -> Entity:
        if raw[0] != "from":
            return raw
        _, mod, name = raw
        sub = f"{mod}.{name}" if mod else name
        module = self.modules.get(mod)
        if module is None:
            return ("missing", mod, name)
        if name in module.defs:
            return ("def", mod, name)
        if name in module.imports:
            if not follow or mod == "":
                return ("def", mod, name)
            return self.entity(module.imports[name].entity)
        if sub in self.modules:
            return ("mod", sub)
        return ("missing", mod, name)

    def global_entity(self, mod: str, name: str, follow: bool = True) -> Entity | None:
        module = self.modules[mod]
        if name in module.defs:
            return ("def", mod, name)
        if name in module.imports:
            return self.entity(module.imports[name].entity, follow)
        sub = f"{mod}.{name}" if mod else name
        if sub in self.modules:
            return ("mod", sub)
        return None


@dataclass
class Scope:
    kind: str
    names: set[str]
    imports: dict[str, tuple[Entity, ast.stmt]]


@dataclass
class Ref:
    """A Name (or an Attribute chain that begins with one) and what it refers to."""

    node: ast.expr  # the Name
    kind: str  # global | limport | local
    name: str
    raw: Entity | None
    stmt: ast.stmt | None
    chain: list[ast.Attribute]  # enclosing attributes, inner first
    local_names: set[str]  # all names bound by the enclosing functions
    offset: tuple[int, int] | None = None  # within a string: (line, column) of the string's content


class Resolver:
    def __init__(self, tree: Tree, package: str, node: ast.AST, module_names: set[str]) -> None:
        self.tree, self.package, self.module_names = tree, package, module_names
        self.refs: list[Ref] = []
        self.local_imports: list[tuple[ast.stmt, list[ast.stmt]]] = []
        self.scopes: list[Scope] = []
        self.offset: tuple[int, int] | None = None
        for stmt in node.body:
            for inner in stmt.body if is_tc(stmt) else [stmt]:
                if not isinstance(inner, (ast.Import, ast.ImportFrom)):
                    self.visit(inner, [])

    def scope_of(self, body: list[ast.stmt], kind: str, args: ast.arguments | None = None) -> Scope:
        names: set[str] = set()
        imports: dict[str, tuple[Entity, ast.stmt]] = {}
        if args:
            for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
                if a:
                    names.add(a.arg)
        hidden: set[str] = set()
        for stmt in body:
            names.update(bound_by(stmt))
        for stmt in walk_scope(body):
            if isinstance(stmt, (ast.Import, ast.ImportFrom)):
                for local, raw in self.tree.aliases(stmt, self.package):
                    imports[local] = (raw, stmt)
            if isinstance(stmt, (ast.Global, ast.Nonlocal)):
                hidden.update(stmt.names)
        return Scope(kind, names - hidden, imports)

    def lookup(self, name: str) -> tuple[str, Entity | None, ast.stmt | None]:
        for i, scope in enumerate(reversed(self.scopes)):
            if scope.kind == "class" and i > 0:
                continue
            if name in scope.imports:
                return "limport", *scope.imports[name]
            if name in scope.names:
                return "local", None, None
        return "global", None, None

    def locals_here(self) -> set[str]:
        return set().union(*(s.names for i, s in enumerate(reversed(self.scopes)) if s.kind != "class" or i == 0)) if self.scopes else set()

    def visit(self, n: ast.AST, chain: list[ast.Attribute]) -> None:
        if isinstance(n, ast.Attribute):
            self.visit(n.value, [n, *chain])
            return
        if isinstance(n, ast.Name):
            kind, raw, stmt = self.lookup(n.id)
            self.refs.append(Ref(n, kind, n.id, raw, stmt, chain, self.locals_here(), self.offset))
            return
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for d in n.decorator_list:
                self.visit(d, [])
            self.arguments(n.args)
            if n.returns:
                self.visit(n.returns, [])
            self.scopes.append(self.scope_of(n.body, "function", n.args))
            self.body(n.body)
            self.scopes.pop()
            return
        if isinstance(n, ast.Lambda):
            self.arguments(n.args)
            self.scopes.append(self.scope_of([], "function", n.args))
            self.visit(n.body, [])
            self.scopes.pop()
            return
        if isinstance(n, ast.ClassDef):
            for d in [*n.decorator_list, *n.bases, *[k.value for k in n.keywords]]:
                self.visit(d, [])
            self.scopes.append(self.scope_of(n.body, "class"))
            self.body(n.body)
            self.scopes.pop()
            return
        if isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            self.visit(n.generators[0].iter, [])
            names = set()
            for g in n.generators:
                names.update(x.id for x in ast.walk(g.target) if isinstance(x, ast.Name))
            self.scopes.append(Scope("function", names, {}))
            for i, g in enumerate(n.generators):
                self.visit(g.target, [])
                if i:
                    self.visit(g.iter, [])
                for c in g.ifs:
                    self.visit(c, [])
            for part in ([n.key, n.value] if isinstance(n, ast.DictComp) else [n.elt]):
                self.visit(part, [])
            self.scopes.pop()
            return
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "cast" and n.args:
            first = n.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.lineno == first.end_lineno:
                self.offset = (first.lineno, first.col_offset + 1)
                self.visit(ast.parse(first.value, mode="eval").body, [])
                self.offset = None
        if isinstance(n, (ast.Import, ast.ImportFrom)):
            return
        for child in ast.iter_child_nodes(n):
            self.visit(child, [])

    def body(self, body: list[ast.stmt]) -> None:
        for stmt in body:
            self.visit(stmt, [])

    def arguments(self, args: ast.arguments) -> None:
        for a in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
            if a and a.annotation:
                self.visit(a.annotation, [])
        for d in [*args.defaults, *[x for x in args.kw_defaults if x]]:
            self.visit(d, [])


def walk_scope(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Statements of one scope, not those of functions and classes inside it."""
    todo: list[ast.AST] = list(body)
    while todo:
        n = todo.pop()
        yield n
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        todo.extend(ast.iter_child_nodes(n))


def local_import_stmts(tree: ast.Module) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """Imports inside functions and blocks, each with the block that holds it."""
    for n in ast.walk(tree):
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(n, name, None)
            if not isinstance(block, list):
                continue
            if n is tree or is_tc(n) if isinstance(n, ast.stmt) else n is tree:
                continue
            for s in block:
                if isinstance(s, (ast.Import, ast.ImportFrom)):
                    yield s, block
