"""Variables and where their values come from: the first place that has one wins."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# ${name}, ${name|default}, ${env:NAME} or ${env:NAME|default}
VARIABLE = re.compile(r"\$\{\s*(?P<env>env:)?\s*(?P<name>[^\W\d][\w.-]*)\s*(?:\|(?P<default>[^{}\n]*))?\}")
NOTHING_GIVEN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Value:
    """The text of a variable; `secret` when it comes from `.env` or the environment."""

    text: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Variables:
    """All places but SET, which a pipeline's own text gives.

    The order is: `given` (--var, --vars), `project` (profile over [vars]), SET, `dotenv`, `environment`.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    project: Mapping[str, str] = field(default_factory=dict)
    dotenv: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    @property
    def known(self) -> dict[str, str]:
        """All by their names, but for the environment, which functions can ask themselves."""
        return {**self.dotenv, **self.project, **self.given}

    def find(self, name: str, assigned: Mapping[str, str] | None = None) -> Value | None:
        """The value of `${name}`; `assigned` holds what SET has given so far."""
        for place in (self.given, self.project, assigned or {}):
            if name in place:
                return Value(place[name])
        return self.find_secret(name)

    def find_secret(self, name: str) -> Value | None:
        """The value of `${env:name}`."""
        for place in (self.dotenv, self.environment):
            if name in place:
                return Value(place[name], secret=True)
        return None


def as_text(value: object) -> str:
    """A value of JSON or TOML as a variable holds it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def given_variables(document: str | None = None, pairs: Iterable[str] = ()) -> dict[str, str]:
    """What --vars (a JSON object) and --var (name=value, which wins) give."""
    return {name: as_text(value) for name, value in _object(document or "{}").items()} | given_pairs("--var", pairs)


def given_pairs(flag: str, pairs: Iterable[str]) -> dict[str, str]:
    """What a flag gives that takes name=value, as often as one likes."""
    given = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ArgumentError("variables.bad_pair", f"{flag} {pair} gives no value.", f"Write {flag} name=value.")
        given[name.strip()] = value
    return given


def _object(document: str) -> dict[str, object]:
    try:
        found = json.loads(document)
    except json.JSONDecodeError as bad:
        raise ArgumentError(
            "variables.bad_json", f"--vars is not JSON: {bad.msg} at character {bad.pos + 1}.", _EXAMPLE
        ) from bad
    if not isinstance(found, dict) or any(value is None or isinstance(value, dict | list) for value in found.values()):
        raise ArgumentError("variables.bad_json", "--vars must be a JSON object of texts and numbers.", _EXAMPLE)
    return found


_EXAMPLE = """Write --vars '{"start_date": "2024-02-01"}'."""
