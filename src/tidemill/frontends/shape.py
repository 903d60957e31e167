"""Compares what users write with types: what an editor knows and what is checked are one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from tidemill.errors import did_you_mean
from tidemill.model import FileError, suggestion

if TYPE_CHECKING:
    from tidemill.errors import ArgumentError
    from tidemill.model import Span

Key = tuple[str | int, ...]
Mistake = tuple[str, str, str]  # its code, the problem and the remedy
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


@dataclass(frozen=True, slots=True)
class Style:
    """How mistakes are worded: here those of Python's values. `called` is what its author calls the whole.

    `spelling` is how a key is written before its value. With `guesses`, a misspelled key counts as the one that it
    looks like, so that what else is wrong can be reported too.
    """

    called: str = "metadata"
    spelling: str = '"{}": '
    guesses: bool = True

    def name(self, key: Key) -> str:
        """The key as its author calls it: `lookback`, or `checks[2]` for an item of a list."""
        if not key:
            return self.called
        last = key[-1]
        return last if isinstance(last, str) else f"{self.name(key[:-1])}[{last}]"

    def unknown_key(self, key: Key, name: str, known: Mapping[str, Any]) -> Mistake:
        remedy = suggestion(name, known, f"the keys are {', '.join(known)}")
        return "models.unknown_key", f"{self.name(key)} has no key {name}", remedy

    def missing_key(self, key: Key, name: str, shape: Any) -> Mistake:
        return "models.missing_key", f"{self.name(key)} needs {name}", self._write((*key, name), shape)

    def unknown_word(self, key: Key, value: object, known: tuple[str, ...]) -> Mistake:
        remedy = suggestion(str(value), known, "use one of them")
        return "models.unknown_value", f"{self.name(key)} must be one of {', '.join(known)}, not {value}", remedy

    def wrong_type(self, key: Key, value: object, shape: Any) -> Mistake:
        *others, last = (_words(each) for each in alternatives(shape))
        wanted = f"{', '.join(others)} or {last}" if others else last
        return "models.wrong_type", f"{self.name(key)} must be {wanted}, not {_what(value)}", self._write(key, shape)

    def empty(self, key: Key, value: object) -> Mistake | None:
        """What is wrong with a text or a list that has nothing in it."""
        if isinstance(value, str):
            return "models.wrong_type", f"{self.name(key)} is empty", "write a text, or leave it out"
        return "models.wrong_type", f"{self.name(key)} is an empty list", "write at least one"

    def _write(self, key: Key, shape: Any) -> str:
        """What to write in the place of this key."""
        if not key:
            return f"write {self.called} = {_example(shape)}"
        if not isinstance(key[-1], str):
            return f"write {_example(shape)}"
        return f"write {self.spelling.format(key[-1])}{_example(shape)}"


@dataclass
class Document:
    """A value that is yet to be checked; what is found wrong with it is noted in `errors`, at its place.

    `style` says how mistakes in such a file are worded.
    """

    value: object
    places: Places
    errors: list[FileError] = field(default_factory=list)
    style: Style = field(default_factory=Style)

    def __post_init__(self) -> None:
        for key, span in self.places.repeated:
            self.errors.append(FileError("models.repeated_key", f"{key} is given twice", "keep one of them", span=span))

    def note(self, key: tuple[str | int, ...], code: str, problem: str, remedy: str) -> None:
        self.errors.append(FileError(code, problem, remedy, span=self.places.at(*key)))

    def pass_on(self, key: tuple[str | int, ...], error: ArgumentError) -> None:
        """Notes what a declaration said of itself."""
        self.errors.append(FileError.at(self.places.at(*key), error))


_WRONG = object()  # in the place of a value that does not fit


def fit(document: Document, shape: Any, decisive: frozenset[str] = frozenset()) -> dict[str, Any] | None:
    """What of the value fits this type, by its keys as they were meant; None where a `decisive` one does not.

    Each mistake is noted at its place.
    """
    checker = _Checker(document)
    found: Any = checker.check(document.value, shape, ())
    return None if found is _WRONG or decisive & checker.lost else found


class _Checker:
    """`lost` are the keys at the top whose values do not fit."""

    def __init__(self, document: Document) -> None:
        self.document, self.style = document, document.style
        self.lost: set[str] = set()

    def check(self, value: object, shape: Any, key: Key) -> object:
        """The value as far as it fits; `_WRONG` where it does not."""
        fitting = next((each for each in alternatives(shape) if _is_a(value, each)), None)
        if fitting is None:
            return self._wrong(key, self.style.wrong_type(key, value, shape))
        if is_typeddict(fitting):
            return self._check_keys(value, fitting, key)
        if get_origin(fitting) is Literal:
            return self._check_word(value, get_args(fitting), key)
        if get_origin(fitting) is list:
            return self._check_items(value, get_args(fitting)[0], key)
        if get_origin(fitting) is dict:
            return self._check_values(value, get_args(fitting)[1], key)
        if value == "" and (empty := self.style.empty(key, value)):
            return self._wrong(key, empty)
        return value

    def _check_keys(self, value: Any, shape: Any, key: Key) -> object:
        hints = get_type_hints(shape)
        meant = {word: name for name in value if (word := self._meant(str(name), value, hints, key))}
        read = {word: self.check(value[name], hints[word], (*key, str(name))) for word, name in meant.items()}
        found = {word: each for word, each in read.items() if each is not _WRONG}
        for name in sorted(shape.__required_keys__ - read.keys()):
            self._wrong(key, self.style.missing_key(key, name, hints[name]))
        lost = read.keys() - found.keys()
        self.lost |= set() if key else lost
        sections = {word for word in lost if any(map(is_typeddict, alternatives(hints[word])))}
        return _WRONG if key and (sections or shape.__required_keys__ - found.keys()) else found

    def _meant(self, name: str, given: Any, hints: dict[str, Any], key: Key) -> str | None:
        """The key that is known by this name; of one that is not, which it looks like, if that is not given too."""
        if name in hints:
            return name
        self._wrong((*key, name), self.style.unknown_key(key, name, hints))
        close = did_you_mean(name, hints) if self.style.guesses else None
        return None if close in given else close

    def _check_word(self, value: object, known: tuple[str, ...], key: Key) -> object:
        if value in known:
            return value
        return self._wrong(key, self.style.unknown_word(key, value, known))

    def _check_values(self, value: Any, shape: Any, key: Key) -> object:
        """A table with any keys, all of one shape."""
        found = {name: self.check(each, shape, (*key, str(name))) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not _WRONG}

    def _check_items(self, value: Any, shape: Any, key: Key) -> object:
        if not value and (empty := self.style.empty(key, value)):
            return self._wrong(key, empty)
        found = [self._check_item(item, shape, (*key, index)) for index, item in enumerate(value)]
        if any(map(is_typeddict, alternatives(shape))):
            return [None if each is _WRONG else each for each in found]
        return _WRONG if _WRONG in found else found

    def _check_item(self, value: object, shape: Any, key: Key) -> object:
        """An item in which anything is wrong is wrong; where it is a dict, None stands in its place in the list."""
        before = len(self.document.errors)
        found = self.check(value, shape, key)
        return _WRONG if len(self.document.errors) > before else found

    def _wrong(self, key: Key, mistake: Mistake) -> object:
        self.document.note(key, *mistake)
        return _WRONG


def alternatives(shape: Any) -> tuple[Any, ...]:
    """The types of which a value may be one."""
    return get_args(shape) if get_origin(shape) in {Union, UnionType} else (shape,)


def _is_a(value: object, shape: Any) -> bool:
    if is_typeddict(shape):
        return isinstance(value, Mapping)
    if get_origin(shape) is Literal:
        return isinstance(value, str)
    if get_origin(shape) is list:
        return isinstance(value, list | tuple)
    if shape is Any:
        return True
    if isinstance(value, bool):
        return shape is bool
    return isinstance(value, int | float if shape is float else get_origin(shape) or shape)


def _words(shape: Any) -> str:
    if is_typeddict(shape):
        return _WORDS[dict][0]
    if get_origin(shape) is Literal:
        return f"one of {', '.join(get_args(shape))}"
    if get_origin(shape) is list:
        inner = [_WORDS[_plain(each)][1] for each in alternatives(get_args(shape)[0])]
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
    first = alternatives(shape)[0]
    if is_typeddict(first):
        return "{ … }"
    if get_origin(first) is Literal:
        return f'"{get_args(first)[0]}"'
    if get_origin(first) is list:
        return f"[{_example(get_args(first)[0])}]"
    return {str: '"…"', bool: "true or false", int: "1", float: "0.1"}.get(first, "{ … }")
