"""The metadata of a model as its author wrote it, in a sidecar or a comment, with the place of every key."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import runpy
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import did_you_mean
from tidemill.frontends.shape import Document, Key, Places
from tidemill.model import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.model import Span, Text

_Found = tuple[Key, ast.expr | ast.keyword]


def places_of(text: Text, value: ast.expr, root: Span, names: Mapping[str, ast.expr] | None = None) -> Places:
    """The places in a value that stands in `text`; `names` are other values that it may refer to."""
    found = list(_keys(value, names or {}))
    spans = {key: span_of(text, node) for key, node in found}
    return Places(root, spans, tuple(_repeated(text, value, names or {})))


def assignments_in(tree: ast.Module) -> dict[str, tuple[ast.Name, ast.expr]]:
    """What the top of a module gives names to, the last time that it does: where, and which value."""
    found: dict[str, tuple[ast.Name, ast.expr]] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                found |= {target.id: (target, value) for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                found[target.id] = (target, value)
    return found


def _keys(node: ast.expr, names: Mapping[str, ast.expr]) -> Iterator[_Found]:
    match node:
        case ast.Name(id=name) if name in names:
            yield from _keys(names[name], {other: value for other, value in names.items() if other != name})
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield from _entry(key, value, names)
        case ast.Call(func=ast.Name(id="dict"), args=args, keywords=keywords):
            for argument in args:
                yield from _keys(argument, names)
            for keyword in keywords:
                yield from _entry(keyword, keyword.value, names)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _keys(left, names)
            yield from _keys(right, names)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for index, item in enumerate(items):
                yield (index,), item
                yield from (((index, *inner), place) for inner, place in _keys(item, names))


def _entry(key: ast.expr | ast.keyword | None, value: ast.expr, names: Mapping[str, ast.expr]) -> Iterator[_Found]:
    match key:
        case ast.Constant(value=str() as word) | ast.keyword(arg=str() as word):
            yield (word,), key
            yield from (((word, *inner), place) for inner, place in _keys(value, names))
        case None | ast.keyword(arg=None):  # **others
            yield from _keys(value, names)


def _repeated(text: Text, value: ast.expr, names: Mapping[str, ast.expr]) -> Iterator[tuple[str, Span]]:
    """Keys that one pair of braces has twice: the first of them would be lost silently."""
    inside = [value, *(names[each.id] for each in ast.walk(value) if isinstance(each, ast.Name) and each.id in names)]
    for braces in (each for whole in inside for each in ast.walk(whole) if isinstance(each, ast.Dict)):
        seen: set[str] = set()
        for key in braces.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                if key.value in seen:
                    yield key.value, span_of(text, key)
                seen.add(key.value)


def span_of(text: Text, node: ast.expr | ast.keyword) -> Span:
    """Where it stands; of a keyword, its name."""
    start = _offset(text, node.lineno, node.col_offset)
    if isinstance(node, ast.keyword):
        return text.span(start, start + len(node.arg or ""))
    return text.span(start, _offset(text, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset))


def _offset(text: Text, line: int, column: int) -> int:
    """The parser counts bytes, places count characters."""
    lines = text.content.split("\n")
    before = sum(len(each) + 1 for each in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode(errors="ignore"))


_COMMENTS = re.compile(r"\A(?:[^\S\n]*(?:--[^\n]*)?(?:\n|\Z))*")
_OPENING = re.compile(r"^[^\S\n]*--[^\S\n]*(metadata)[^\S\n]*:", re.MULTILINE)
_DASHES = re.compile(r"^[^\S\n]*--", re.MULTILINE)
_HINT = 'names and texts stand in "…", with , between them: {"materialization": "view"}'


def read_comment(text: Text) -> Document | None:
    """The metadata in the comments before the query, if there are any. Raises `FileError` at what is not JSON."""
    comments = _COMMENTS.match(text.content)
    opening = _OPENING.search(comments.group()) if comments else None
    if comments is None or opening is None:
        return None
    content = _blank(text.content[: comments.end()], opening.end())
    start = opening.end() + len(content[opening.end() :]) - len(content[opening.end() :].lstrip())
    try:
        value, end = json.JSONDecoder().raw_decode(content, start)
    except json.JSONDecodeError as bad:
        raise _not_json(text, bad, max(opening.end(), len(content.rstrip()))) from None
    line_end = content.find("\n", end)
    rest = content[end : line_end if line_end >= 0 else None]
    if rest.strip():
        at = end + len(rest) - len(rest.lstrip())
        raise _bad_json(text, at, "this does not belong to the JSON", "remove it, or write it on a line of its own")
    root = text.span(*opening.span(1))
    return Document(value, places_of(text, _tree(content[:end], opening.start()), root))


def _blank(content: str, end: int) -> str:
    """The comments with spaces in the place of all that is no JSON, so that every character keeps its place."""
    kept = _DASHES.sub(lambda dashes: " " * len(dashes.group()), content[end:])
    return re.sub(r"[^\n]", " ", content[:end]) + kept


def _not_json(text: Text, bad: json.JSONDecodeError, end: int) -> FileError:
    message = (bad.msg[:1].lower() + bad.msg[1:]).removesuffix(" at")
    return _bad_json(text, min(bad.pos, end), f"this is not JSON: {message}", _HINT)


def _tree(content: str, line: int) -> ast.expr:
    """JSON is an expression of Python once brackets let it go over lines; its true and null are mere names there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # \/ is an escape of JSON and none of Python
        return ast.parse(f"{content[:line]}({content[line + 1 :]})", mode="eval").body


def _bad_json(text: Text, at: int, problem: str, remedy: str) -> FileError:
    return FileError("models.bad_json", problem, remedy, span=text.span(at, at + 1))


NAME = "metadata"


def read_sidecar(text: Text) -> Document:
    """Runs the file, which leaves neither modules nor files behind. Raises `FileError` where it gives no metadata."""
    tree = parse_python(text)
    values = _run(text)
    names = assignments_in(tree)
    if NAME not in values:
        raise _no_metadata(text, names)
    if NAME not in names:  # made by an import, a loop or the like
        return Document(values[NAME], places_of(text, ast.Constant(None), text.span(0, 1)))
    target, value = names[NAME]
    others = {name: other for name, (_, other) in names.items() if name != NAME}
    return Document(values[NAME], places_of(text, value, span_of(text, target), others))


def gives_metadata(text: Text) -> bool:
    """Whether a Python file looks like a sidecar; it is not run."""
    try:
        return NAME in assignments_in(parse_python(text))
    except FileError:
        return False


def parse_python(text: Text) -> ast.Module:
    """The tree of a Python file. Raises `FileError` where it is none."""
    try:
        return ast.parse(text.content)
    except SyntaxError as bad:
        span = _at_line(text, bad.lineno or 1, (bad.offset or 1) - 1)
        raise FileError("models.syntax", f"this is no Python: {bad.msg}", "correct it", span=span) from None
    except ValueError as bad:  # a NUL in it
        span = text.span(0, 1)
        raise FileError("models.syntax", f"this is no Python: {bad}", "correct it", span=span) from None


def _run(text: Text) -> dict[str, object]:
    with isolated(Path(text.file).absolute().parent):
        try:
            return runpy.run_path(text.file, run_name=f"tidemill sidecar {text.file}")
        except (Exception, SystemExit) as failure:  # whatever a user's code may raise
            raise failed_run(text, failure) from failure


@contextlib.contextmanager
def isolated(folder: Path) -> Iterator[None]:
    """What the file prints goes to stderr; no bytecode is written, and modules of its own folder are forgotten."""
    before, bytecode = set(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.dont_write_bytecode = bytecode
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]


def failed_run(text: Text, failure: BaseException) -> FileError:
    """Running a file of the user's has failed; the line is the last of the file that had a part in it."""
    frames = [frame for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == text.file]
    line = (frames[-1].lineno if frames else None) or 1
    words = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    return FileError(
        "models.sidecar_failed", f"running this file failed: {words}", "correct it", span=_at_line(text, line)
    )


def _no_metadata(text: Text, names: dict[str, tuple[ast.Name, ast.expr]]) -> FileError:
    close = did_you_mean(NAME, names)
    dicts = [name for name, (_, value) in names.items() if isinstance(value, ast.Dict | ast.Call)]
    span = span_of(text, names[close][0]) if close else text.span(0, 1)
    remedy = f"did you mean {NAME}?" if close else f"write {NAME} = {dicts[-1] if dicts else '{ … }'}"
    return FileError("models.no_metadata", f"this file gives no {NAME}", remedy, span=span)


def _at_line(text: Text, number: int, column: int | None = None) -> Span:
    """A line of the text from this column on, or all that stands in it."""
    lines = text.content.split("\n")
    number = min(number, len(lines))
    line = lines[number - 1]
    start = sum(len(each) + 1 for each in lines[: number - 1])
    if column is not None:
        return text.span(start + min(column, len(line)), start + min(column, len(line)) + 1)
    return text.span(start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
