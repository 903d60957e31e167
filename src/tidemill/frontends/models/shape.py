"""Compares metadata with the types of `tidemill.typing`: what an editor knows and what is checked are one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from tidemill.errors import did_you_mean
from tidemill.model.mistakes import suggestion

if TYPE_CHECKING:
    from tidemill.frontends.models.document import Document, Key

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


_WRONG = object()  # in the place of a value that does not fit


def fitted(document: Document, shape: Any, decisive: set[str]) -> dict[str, Any] | None:
    """What of the value fits this type, by its keys as they were meant; None where a `decisive` one does not.

    Each mistake is noted at its place. A misspelled key counts as the one that it looks like, so that what else is
    wrong can be reported too.
    """
    checker = _Checker(document)
    found: Any = checker.check(document.value, shape, ())
    return None if found is _WRONG or decisive & checker.lost else found


class _Checker:
    """`lost` are the keys at the top whose values do not fit."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lost: set[str] = set()

    def check(self, value: object, shape: Any, key: Key) -> object:
        """The value as far as it fits; `_WRONG` where it does not."""
        fitting = next((each for each in _alternatives(shape) if _is_a(value, each)), None)
        if fitting is None:
            return self._wrong_type(value, shape, key)
        if is_typeddict(fitting):
            return self._check_keys(value, fitting, key)
        if get_origin(fitting) is Literal:
            return self._check_word(value, get_args(fitting), key)
        if get_origin(fitting) is list:
            return self._check_items(value, get_args(fitting)[0], key)
        if value == "":
            return self._wrong(
                key, "models.wrong_type", f"{self._named(key)} is empty", "write a text, or leave it out"
            )
        return value

    def _check_keys(self, value: Any, shape: Any, key: Key) -> object:
        hints = get_type_hints(shape)
        meant = {word: name for name in value if (word := self._meant(str(name), value, hints, key))}
        read = {word: self.check(value[name], hints[word], (*key, str(name))) for word, name in meant.items()}
        found = {word: each for word, each in read.items() if each is not _WRONG}
        for name in sorted(shape.__required_keys__ - read.keys()):
            remedy = self._write((*key, name), hints[name])
            self._wrong(key, "models.missing_key", f"{self._named(key)} needs {name}", remedy)
        lost = read.keys() - found.keys()
        self.lost |= set() if key else lost
        sections = {word for word in lost if any(map(is_typeddict, _alternatives(hints[word])))}
        return _WRONG if key and (sections or shape.__required_keys__ - found.keys()) else found

    def _meant(self, name: str, given: Any, hints: dict[str, Any], key: Key) -> str | None:
        """The key that is known by this name; of one that is not, which it looks like, if that is not given too."""
        if name in hints:
            return name
        remedy = suggestion(name, hints, f"the keys are {', '.join(hints)}")
        self._wrong((*key, name), "models.unknown_key", f"{self._named(key)} has no key {name}", remedy)
        close = did_you_mean(name, hints)
        return None if close in given else close

    def _check_word(self, value: object, known: tuple[str, ...], key: Key) -> object:
        if value in known:
            return value
        remedy = suggestion(str(value), known, "use one of them")
        problem = f"{self._named(key)} must be one of {', '.join(known)}, not {value}"
        return self._wrong(key, "models.unknown_value", problem, remedy)

    def _check_items(self, value: Any, shape: Any, key: Key) -> object:
        if not value:
            return self._wrong(key, "models.wrong_type", f"{self._named(key)} is an empty list", "write at least one")
        found = [self._check_item(item, shape, (*key, index)) for index, item in enumerate(value)]
        if any(map(is_typeddict, _alternatives(shape))):
            return [None if each is _WRONG else each for each in found]
        return _WRONG if _WRONG in found else found

    def _check_item(self, value: object, shape: Any, key: Key) -> object:
        """An item in which anything is wrong is wrong; where it is a dict, None stands in its place in the list."""
        before = len(self.document.errors)
        found = self.check(value, shape, key)
        return _WRONG if len(self.document.errors) > before else found

    def _wrong_type(self, value: object, shape: Any, key: Key) -> object:
        *others, last = (_words(each) for each in _alternatives(shape))
        wanted = f"{', '.join(others)} or {last}" if others else last
        problem = f"{self._named(key)} must be {wanted}, not {_what(value)}"
        return self._wrong(key, "models.wrong_type", problem, self._write(key, shape))

    def _wrong(self, key: Key, code: str, problem: str, remedy: str) -> object:
        self.document.note(key, code, problem, remedy)
        return _WRONG

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
        inner = [_WORDS[_plain(each)][1] for each in _alternatives(get_args(shape)[0])]
        return f"a list of {' or '.join(inner)}"
    return _WORDS[get_origin(shape) or shape][0]


def _plain(shape: Any) -> object:
    return dict if is_typeddict(shape) else get_origin(shape) or shape


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
