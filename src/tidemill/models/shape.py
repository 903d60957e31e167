"""Compares metadata with the types of `tidemill.typing`: what an editor knows and what is checked are one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from tidemill.declare.mistakes import suggestion
from tidemill.errors import did_you_mean

if TYPE_CHECKING:
    from tidemill.models.document import Document
    from tidemill.models.places import Key

_WORDS: dict[object, tuple[str, str]] = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    date: ("a date", "dates"),
    bool: ("true or false", "true or false"),
    dict: ("a dict", "dicts"),
    list: ("a list", "lists"),
    Mapping: ("a dict", "dicts"),
}


def misfits(document: Document, shape: Any) -> set[str]:
    """The keys whose values do not have this type, "" for the whole; each mistake is noted at its place."""
    checker = _Checker(document)
    checker.check(document.value, shape, ())
    return checker.broken


class _Checker:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.broken: set[str] = set()

    def check(self, value: object, shape: Any, key: Key) -> None:
        fitting = next((each for each in _alternatives(shape) if _is_a(value, each)), None)
        if fitting is None:
            self._wrong_type(value, shape, key)
        elif is_typeddict(fitting):
            self._check_keys(value, fitting, key)
        elif get_origin(fitting) is Literal:
            self._check_word(value, get_args(fitting), key)
        elif get_origin(fitting) is list:
            self._check_items(value, get_args(fitting)[0], key)
        elif value == "":
            self._note(key, "models.wrong_type", f"{self._named(key)} is empty", "write a text, or leave it out")

    def _check_keys(self, value: Any, shape: Any, key: Key) -> None:
        hints, whole = get_type_hints(shape), self._named(key)
        meant = set()
        for name, each in value.items():
            if name in hints:
                self.check(each, hints[name], (*key, name))
            else:
                meant.add(did_you_mean(str(name), hints))
                remedy = suggestion(str(name), hints, f"the keys are {', '.join(hints)}")
                self._note(key, "models.unknown_key", f"{whole} has no key {name}", remedy, (*key, str(name)))
        for name in sorted(shape.__required_keys__ - value.keys() - meant):
            self._note(key, "models.missing_key", f"{whole} needs {name}", self._write((*key, name), hints[name]))

    def _check_word(self, value: object, known: tuple[str, ...], key: Key) -> None:
        if value not in known:
            remedy = suggestion(str(value), known, "use one of them")
            problem = f"{self._named(key)} must be one of {', '.join(known)}, not {value}"
            self._note(key, "models.unknown_value", problem, remedy)

    def _check_items(self, value: Any, shape: Any, key: Key) -> None:
        if not value:
            self._note(key, "models.wrong_type", f"{self._named(key)} is an empty list", "write at least one")
        for index, item in enumerate(value):
            self.check(item, shape, (*key, index))

    def _note(self, key: Key, code: str, problem: str, remedy: str, place: Key | None = None) -> None:
        self.broken.add(str(key[0]) if key else "")
        self.document.note(place or key, code, problem, remedy)

    def _wrong_type(self, value: object, shape: Any, key: Key) -> None:
        *others, last = (_words(each) for each in _alternatives(shape))
        wanted = f"{', '.join(others)} or {last}" if others else last
        self._note(
            key,
            "models.wrong_type",
            f"{self._named(key)} must be {wanted}, not {_what(value)}",
            self._write(key, shape),
        )

    def _named(self, key: Key) -> str:
        """The key as its author calls it: `lookback`, or `checks[2]` for an item of a list."""
        if not key:
            return self.document.called
        last = key[-1]
        return last if isinstance(last, str) else f"{self._named(key[:-1])}[{last}]"

    def _write(self, key: Key, shape: Any) -> str:
        """What to write in the place of this key."""
        if not key:
            return f"write {self.document.called} = {_example(shape)}"
        if not isinstance(key[-1], str):
            return f"write {_example(shape)}"
        return f"write {self.document.spelling.format(key[-1])}{_example(shape)}"


def _alternatives(shape: Any) -> tuple[Any, ...]:
    return get_args(shape) if get_origin(shape) in {Union, UnionType} else (shape,)


def _is_a(value: object, shape: Any) -> bool:
    if is_typeddict(shape):
        return isinstance(value, Mapping)
    if get_origin(shape) is Literal:
        return isinstance(value, str)
    if get_origin(shape) is list:
        return isinstance(value, list | tuple)
    if isinstance(value, bool):
        return shape is bool
    return isinstance(value, int | float if shape is float else get_origin(shape) or shape)


def _words(shape: Any) -> str:
    if is_typeddict(shape):
        return _WORDS[dict][0]
    if get_origin(shape) is Literal:
        return f"one of {', '.join(get_args(shape))}"
    if get_origin(shape) is list:
        inner = [_WORDS[dict if is_typeddict(each) else each][1] for each in _alternatives(get_args(shape)[0])]
        return f"a list of {' or '.join(inner)}"
    return _WORDS[get_origin(shape) or shape][0]


def _what(value: object) -> str:
    """What is there instead, as far as it can be said in a word."""
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    kind = next((known for known in (dict, list) if isinstance(value, known)), None)
    return _WORDS[kind][0] if kind else f"a {type(value).__name__}"


def _example(shape: Any) -> str:
    first = _alternatives(shape)[0]
    if is_typeddict(first):
        return "{ … }"
    if get_origin(first) is Literal:
        return f'"{get_args(first)[0]}"'
    if get_origin(first) is list:
        return f"[{_example(get_args(first)[0])}]"
    return {str: '"…"', bool: "true or false", int: "1", float: "0.1"}.get(first, "{ … }")
