"""Where each key of a dict is written, in Python or in JSON, which Python's own parser reads as well."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.declare.text import Span, Text

Key = tuple[str | int, ...]
_Found = tuple[Key, ast.expr | ast.keyword]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of keys, of keys in keys, and of the items of lists; `root` is that of the whole."""

    root: Span
    keys: Mapping[Key, Span] = field(default_factory=dict)
    repeated: tuple[tuple[str, Span], ...] = ()

    def at(self, *key: str | int) -> Span:
        """Where the key is written; of one that is not, where the nearest above it is."""
        known = (key[:length] for length in range(len(key), 0, -1))
        return next((self.keys[each] for each in known if each in self.keys), self.root)


def places_of(text: Text, value: ast.expr, root: Span, names: Mapping[str, ast.expr] | None = None) -> Places:
    """The places in a value that stands in `text`; `names` are other values that it may refer to."""
    found = list(_keys(value, names or {}))
    spans = {key: span_of(text, node) for key, node in found}
    return Places(root, spans, tuple(_repeated(text, value, names or {})))


def assigned(tree: ast.Module) -> dict[str, tuple[ast.Name, ast.expr]]:
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
