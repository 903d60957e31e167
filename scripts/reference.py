"""Writes docs/reference.md: every public call and type, every command with its options, every error with its remedy.

.venv/bin/python scripts/reference.py            # writes the page
.venv/bin/python scripts/reference.py --check    # says whether the page in the tree is the one that the code gives

Nothing on the page is written by hand. Errors are collected from the source: wherever a code stands before a problem
and a remedy, be it in a raise or in the call of a helper that raises.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

import tidemill
from tidemill.cli.main import tidemill as command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import ModuleType

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tidemill"
PAGE = ROOT / "docs" / "reference.md"
WIDTH = 118
GAP = "…"
HEAD = """# Reference

Written by `scripts/reference.py` from the code; a test fails where the two differ.

- [Calls and types](#calls-and-types): what `import tidemill` gives, with an example of each
- [Parts of results and declarations](#parts-of-results-and-declarations): `tidemill.results`, `tidemill.declarations`
- [Commands](#commands): every command with its options
- [Errors](#errors): every code, what it means, and what to do
"""
ABOUT_ERRORS = """An error has a stable code, says what happened, and after the arrow what to do. In Python it is a
`tidemill.TidemillError`, of one of the classes in `tidemill.errors`; a command ends with exit code 2 where a file or a
flag of yours is wrong, else with 1. *Words like these* stand for values, and / separates texts of which one is shown.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *calls(), *parts(), *commands(), *errors()]).rstrip() + "\n"


# calls and types


def calls() -> Iterator[str]:
    """The public names in the order of the alphabet: first what is called, then the types."""
    named = {name: getattr(tidemill, name) for name in tidemill.__all__ if name != "__version__"}
    yield "## Calls and types\n"
    for name, thing in sorted(named.items(), key=lambda item: (inspect.isclass(item[1]), item[0].lower())):
        yield f"### tidemill.{name}\n"
        yield from _described(name, thing)


def _described(name: str, thing: Any) -> Iterator[str]:
    if inspect.isfunction(thing):
        yield _fenced(_signature(name, thing), "python")
    elif dataclasses.is_dataclass(thing):
        yield _fenced(_fields(name, thing), "python")
    elif issubclass(thing, str):
        yield f"One of {', '.join(f'`{each}`' for each in thing)}.\n"
    yield _markdown(thing.__doc__ or "")
    if inspect.isclass(thing):
        yield from _members(thing)


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties of a class of ours, each with what it says of itself."""
    for name, member in vars(kind).items():
        called = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(called) or not called.__doc__:
            continue
        shown = name if isinstance(member, property) else _signature(name, called, width=None)
        yield _wrapped(f"- `{shown}`: {_one_line(called.__doc__)}", "  ")
    yield ""


def _signature(name: str, function: Any, width: int | None = WIDTH) -> str:
    """As it is called: without self, and with one parameter in a line where it is wider than this."""
    signature = inspect.signature(function)
    written = list(_parameters(signature))
    returned = f" -> {signature.return_annotation}" if signature.return_annotation is not signature.empty else ""
    short = f"{name}({', '.join(written)}){returned}"
    if width is None or len(short) <= width:
        return short
    return "\n".join([f"{name}(", *(f"    {each}," for each in written), f"){returned}"])


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """As they are written, with the mark after which they need their names."""
    marked = False
    for each in signature.parameters.values():
        if each.name in {"self", "cls"}:
            continue
        if each.kind is each.KEYWORD_ONLY and not marked:
            marked = True
            yield "*"
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        yield f"{stars}{each.name}{kind}{'' if each.default is each.empty else f' = {_literal(each.default)}'}"


def _literal(value: object) -> str:
    """A default as it is written in code."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return GAP if callable(value) else repr(value)


def _fields(name: str, kind: Any) -> str:
    shown = [f"    {each.name}: {each.type}{_default(each)}," for each in dataclasses.fields(kind) if each.init]
    return "\n".join([f"{name}(", *shown, ")"])


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {_literal(field.default)}"
    return "" if field.default_factory is dataclasses.MISSING else f" = {GAP}"


def _markdown(doc: str) -> str:
    """A docstring with its examples as blocks of code."""
    lines, found, block = inspect.cleandoc(doc).splitlines(), [], False
    for line in lines:
        if line.startswith(">>> ") and not block:
            found.append("```pycon")
            block = True
        elif block and not line:
            found.append("```")
            block = False
        found.append(line)
    return "\n".join([*found, *(["```"] if block else []), ""])


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```\n"


def _one_line(doc: str) -> str:
    """Its first paragraph."""
    return " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())


# parts


def parts() -> Iterator[str]:
    """The modules that hold what results and declarations consist of."""
    yield "## Parts of results and declarations\n"
    for name in ("tidemill.results", "tidemill.declarations"):
        module = import_module(name)
        yield f"### {name}\n"
        yield _markdown_of(module)
        said = (f"- `{each}`: {_one_line(getattr(module, each).__doc__ or '')}" for each in module.__all__)
        yield from (_wrapped(line, "  ") for line in said)
        yield ""


def _markdown_of(module: ModuleType) -> str:
    """The text of a module, its indented example as a block of code."""
    text = inspect.cleandoc(module.__doc__ or "")
    return re.sub(r"\n\n((?:    .*\n|\n)*    .*)", lambda m: f"\n\n{_fenced(textwrap.dedent(m[1]), 'python')}", text)


# commands


def commands() -> Iterator[str]:
    """Every command as `tidemill COMMAND --help` shows it, in the order of `tidemill --help`."""
    yield "## Commands\n"
    context = click.Context(command)
    for title, those in command.sections.items():
        yield f"### {title}\n"
        for name, *_ in those:
            yield from _command(command.get_command(context, name))


def _command(each: click.Command) -> Iterator[str]:
    context = click.Context(each, info_name=f"tidemill {each.name}")
    yield f"#### tidemill {each.name}\n"
    yield _fenced(" ".join([context.command_path, *each.collect_usage_pieces(context)]), "text")
    yield from (f"{_wrapped(part, '')}\n" for part in inspect.cleandoc(each.help or "").split("\n\n"))
    options = [option for option in each.params if isinstance(option, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context))]
    yield "| option | meaning |\n|---|---|"
    yield from (f"| `{_cell(flags)}` | {_cell(meaning)} |" for flags, meaning in records)
    yield f"\n{_fenced((each.epilog or '').replace(chr(8), '').strip(), 'text')}" if each.epilog else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# errors


@dataclass(frozen=True)
class Site:
    """A place where an error is made: its code, what happened and what to do, with names in the place of values."""

    code: str
    problem: str
    remedy: str


CODE = re.compile(r"[a-z]+(?:_[a-z]+)*\.[a-z_]+")


def errors() -> Iterator[str]:
    """Every code by its first word, with each problem that it stands for and the remedies."""
    found: dict[str, dict[str, list[Site]]] = defaultdict(lambda: defaultdict(list))
    for site in sites():
        found[site.code.partition(".")[0].strip("<>")][site.code].append(site)
    yield "## Errors\n"
    yield ABOUT_ERRORS
    for word in sorted(found):
        yield f"### {word}\n"
        for code in sorted(found[word]):
            yield from _error(code, found[word][code])
        yield ""


def _error(code: str, those: Iterable[Site]) -> Iterator[str]:
    """The code with each problem, but for those of which the source says nothing where it has others."""
    known = [each for each in those if each.problem != GAP] or list(those)
    found = {_ended(each.problem) + (f" → {each.remedy}" if each.remedy != GAP else "") for each in known}
    if len(found) == 1:
        yield _wrapped(f"- `{code}`: {found.pop()}", "  ")
    else:
        yield f"- `{code}`:"
        yield from (_wrapped(f"  - {each}", "    ") for each in sorted(found))


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!", GAP)) else f"{text}."


def sites() -> list[Site]:
    """All places in the source that make an error."""
    found = (site for source in SOURCES for site in source.sites())
    return [site for site in found if site.problem != GAP or "<" not in site.code]


NONE: Mapping[str, ast.expr] = MappingProxyType({})


@dataclass(frozen=True)
class Source:
    """One file of the source."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text())

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef)]

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """What is called in it, by name."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                found[node.func.id if isinstance(node.func, ast.Name) else node.func.attr].append(node)
        return found

    def sites(self) -> Iterator[Site]:
        """A code, a problem and a remedy that follow each other, in a call or in a tuple."""
        for node in self.nodes:
            values = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            raises = isinstance(node, ast.Call) and _called(node.func).endswith("Error")
            for place, value in enumerate(values[:2]):  # a helper may be given what it is about before the code
                rest = values[place + 1 :]
                if len(rest) >= 2 and (raises or _may_be_code(value)):  # noqa: PLR2004  a problem and a remedy
                    made = self._sites(value, rest[-2], rest[-1], raises=raises)
                    yield from (site for site in made if " " in site.problem or raises)

    def _sites(self, code: ast.expr, problem: ast.expr, remedy: ast.expr, *, raises: bool) -> Iterator[Site]:
        """One for each code; or for each call of the helper that is given one of the three, or a part of the code."""
        given = [*ast.walk(code), problem, remedy] if raises or _begins_like_a_code(code) else [problem, remedy]
        helper = next((each for each in self.functions if any(_is_given(each, value) for value in given)), None)
        if helper is None:
            yield from (Site(each, self.text(problem), self.text(remedy)) for each in self._codes(code, raises=raises))
            return
        for place in [self] if helper.name.startswith("_") else SOURCES:
            for call in place.calls.get(helper.name, []):
                found = _arguments(helper, call)
                texts = [place.text(found[name]) if (name := _name_of(each)) in found else self.text(each)
                         for each in (problem, remedy)]  # fmt: skip
                first = found.get(_name_of(code), code)
                yield from (Site(each, *texts) for each in self._codes(first, found, raises=raises))

    def _codes(self, value: ast.expr, found: Mapping[str, ast.expr] = NONE, *, raises: bool) -> Iterator[str]:
        """The codes that an expression stands for: a literal, one of two, or one that is put together."""
        match value:
            case ast.Constant(value=str(text)) if CODE.fullmatch(text):
                yield text
            case ast.IfExp(body=body, orelse=other):
                yield from (*self._codes(body, raises=raises), *self._codes(other, raises=raises))
            case ast.JoinedStr(values=parts) if raises or _begins_like_a_code(value):
                literals = {name: each for name, each in found.items() if isinstance(each, ast.Constant)}
                put_in = [literals.get(_name_of(getattr(part, "value", part)), part) for part in parts]
                made = re.sub(r"\*(.*?)\*", r"<\1>", "".join(map(self.text, put_in)))
                yield from [made] if CODE.fullmatch(re.sub(r"[<>]", "", made)) else []

    def text(self, value: ast.expr) -> str:
        """A text of the source as users see it, with names in the place of what is put in."""
        return " ".join(self._text(value).split())

    def _text(self, value: ast.expr) -> str:
        match value:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(map(self._text, parts))
            case ast.FormattedValue(value=inner):
                return self._value(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
            case ast.IfExp(body=body, orelse=other):
                return _choice([self._text(body), self._text(other)])
            case ast.Name(id=name):
                return self._assigned(name, value.lineno)
            case ast.Call(func=ast.Name(id=name)):
                return _choice(text for source in SOURCES for text in source.returned(name))
            case _:
                return GAP

    def returned(self, name: str) -> Iterator[str]:
        """The texts that a function of this file returns."""
        for function in (each for each in self.functions if each.name == name):
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.JoinedStr | ast.Constant | ast.IfExp):
                    yield self._text(node.value)

    def _value(self, inner: ast.expr) -> str:
        """What a value put into a text is called there; of a choice of words, the one for many."""
        match inner:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr():
                return self._text(inner)
            case ast.IfExp(orelse=other):
                return self._value(other)
            case ast.Name(id=name) if name.isupper():
                return self._constant(name)
            case ast.Attribute(value=owner, attr="name" | "text" | "path" | "origin" as word):
                return f"*{_called(owner) or word}*"
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.Name(id=name)]):
                return self._constant(name) if name.isupper() else f"*{_called(ast.Name(name))}*"
            case _:
                return f"*{_called(inner)}*" if _called(inner) else GAP

    def _constant(self, name: str) -> str:
        """The value of a constant of this file; its name where that is no text, number or list of them."""
        module = ".".join(self.path.relative_to(PACKAGE.parent).with_suffix("").parts)
        match getattr(import_module(module.removesuffix(".__init__")), name, None):
            case str() | int() as value:
                return str(value)
            case tuple() | list() | set() | frozenset() | dict() as values:
                return ", ".join(sorted(map(str, values)) if isinstance(values, set | frozenset) else map(str, values))
            case _:
                return f"*{_called(ast.Name(name))}*"

    def _assigned(self, name: str, line: int) -> str:
        """The text that a name was given last before a line, in the same function or at the top of the file."""
        around = [each for each in self.functions if each.lineno <= line <= (each.end_lineno or line)]
        given = [
            node.value
            for node in ast.walk(max(around, key=lambda each: each.lineno) if around else self.tree)
            if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name) and target.id == name
        ]
        top = [
            node.value for node in self.tree.body if isinstance(node, ast.Assign) and _called(node.targets[0]) == name
        ]
        near = max((each for each in given if each.lineno < line), key=lambda each: each.lineno, default=None)
        near = near or next(iter(top), None)
        return GAP if near is None or (isinstance(near, ast.Name) and near.id == name) else self._text(near)


SOURCES = [Source(path) for path in sorted(PACKAGE.rglob("*.py"))]


def _may_be_code(value: ast.expr) -> bool:
    """Whether it is a code, one of two, or begins like one."""
    match value:
        case ast.Constant(value=str(text)):
            return bool(CODE.fullmatch(text))
        case ast.IfExp(body=body, orelse=other):
            return _may_be_code(body) and _may_be_code(other)
        case _:
            return _begins_like_a_code(value)


def _begins_like_a_code(value: ast.expr) -> bool:
    """Whether a text that is put together begins with the word of a code and its dot."""
    first = value.values[0] if isinstance(value, ast.JoinedStr) else None
    return isinstance(first, ast.Constant) and bool(re.match(r"[a-z]+\.", str(first.value)))


def _name_of(value: ast.AST) -> str:
    return value.id if isinstance(value, ast.Name) else ""


def _is_given(function: ast.FunctionDef, value: ast.AST) -> bool:
    """Whether an expression is a parameter of this function, within it."""
    names = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    if not isinstance(value, ast.Name) or value.id not in names:
        return False
    return function.lineno <= value.lineno <= (function.end_lineno or 0)


def _arguments(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    names = [each.arg for each in function.args.args if each.arg not in {"self", "cls"}]
    return dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}


def _choice(texts: Iterable[str]) -> str:
    """Several texts of which a user sees one."""
    known = dict.fromkeys(text for text in texts if text.strip() and text != GAP)
    return " / ".join(known) or GAP


def _called(value: ast.expr) -> str:
    """The plain name behind an expression; nothing where there is none."""
    match value:
        case ast.Name(id="self"):
            return ""
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").replace("_", " ")
        case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.UnaryOp(operand=inner):
            return _called(inner)
        case ast.Call(args=[first, *_]):
            return _called(first)
        case ast.Call(func=ast.Attribute(value=owner)):
            return _called(owner)
        case ast.GeneratorExp(generators=[each, *_]) | ast.ListComp(generators=[each, *_]):
            return _called(each.iter)
        case _:
            return ""


def main() -> None:
    """Writes the page, or says whether it is what the code gives."""
    parser = argparse.ArgumentParser(description="Writes docs/reference.md from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where the page is another one")
    if not parser.parse_args().check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/reference.md is not what the code gives: run scripts/reference.py")


if __name__ == "__main__":
    main()
