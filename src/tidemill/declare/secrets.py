"""Values that must not be seen: in plans, logs, records, the ledger and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from tidemill.declare.names import quoted_text

MASK = "***"
_SHORT = 4  # shorter values are masked where they stand alone: "a" must not take every a out of a sentence

_SECRET_NAMES = re.compile(
    r"(?i)pass|pwd|secret|token|credential|authorization|cookie|api.?key|access.?key|private.?key"
)
_IN_URL = re.compile(r"(?i)[?&;](\w*(?:pass|pwd|secret|token)\w*)=([^&;]*)")

Data = TypeVar("Data")


@dataclass(frozen=True)
class Masking:
    """Replaces every secret by ***, also in the spellings that JSON, SQL and URLs give it."""

    secrets: frozenset[str] = frozenset()
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", _pattern(self.secrets))

    def __repr__(self) -> str:
        return f"Masking({len(self.secrets)} secrets)"

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def mask_data(self, data: Data) -> Data:
        """The same for what JSON can hold: texts and keys inside lists and dicts, and numbers that are a secret."""
        masked: object = data
        if isinstance(data, str):
            masked = self.mask(data)
        elif isinstance(data, dict):
            masked = {self.mask_data(key): self.mask_data(value) for key, value in data.items()}
        elif isinstance(data, list | tuple):
            masked = type(data)(self.mask_data(value) for value in data)
        elif isinstance(data, int | float) and not isinstance(data, bool) and str(data) in self.secrets:
            masked = MASK
        return cast("Data", masked)


def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
    longest_first = sorted(spellings, key=lambda each: (-len(each), each))
    return re.compile("|".join(_alternative(each) for each in longest_first)) if spellings else None


def _alternative(spelling: str) -> str:
    literal = re.escape(spelling)
    return literal if len(spelling) >= _SHORT else rf"(?<!\w){literal}(?!\w)"


def _spellings(secret: str) -> set[str]:
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quoted_text(secret)[1:-1],
        repr(secret)[1:-1],
        secret.replace("`", "``"),
        quote(secret, safe=""),
        quote_plus(secret),
    }


def secrets_in(params: Mapping[str, object]) -> frozenset[str]:
    """The values in a source's or an export's params that are secrets by their names, and those inside URLs."""
    return frozenset(secret for secret in _secrets(params) if secret)


def _secrets(value: object, name: str = "", *, hidden: bool = False) -> Iterator[str]:
    """The texts that are secrets by the name they stand under, and those inside URLs."""
    hidden = hidden or bool(_SECRET_NAMES.search(name))
    match value:
        case Mapping():
            for inner, each in value.items():
                yield from _secrets(each, str(inner), hidden=hidden)
        case list() | tuple():
            for each in value:
                yield from _secrets(each, name, hidden=hidden)
        case str() if hidden:
            yield from {value, value.rpartition(" ")[2]}  # "Bearer abc" hides abc too
        case str() if "://" in value:
            yield from _secrets_of_url(value)
        case _:
            return


def _secrets_of_url(url: str) -> Iterator[str]:
    yield from (unquote(value) for _, value in _IN_URL.findall(url) if value)
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
    except ValueError:
        return
    if parts.password:
        yield unquote(parts.password)
    yield from (value for name, value in parse_qsl(parts.query) if _SECRET_NAMES.search(name) and value)
