"""Variables in the texts of a project file: `${name}`, `${name|default}`, `${env:NAME}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from tidemill.declare.variables import VARIABLE
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    import re

    from tidemill.declare.variables import Variables
    from tidemill.errors import Origin

Data = TypeVar("Data")


@dataclass
class Filling:
    """Puts values in the place of variables; `secrets` holds those that came from `.env` or the environment."""

    variables: Variables
    secrets: set[str] = field(default_factory=set, repr=False)

    def fill(self, data: Data, origin: Origin | None) -> Data:
        """The same data, with every text in it filled; `origin` is where it stands. A missing value is an error."""
        filled: object = data
        if isinstance(data, str):
            filled = VARIABLE.sub(lambda found: self._value(found, origin), data)
        elif isinstance(data, Mapping):
            filled = {name: self.fill(value, origin) for name, value in data.items()}
        elif isinstance(data, list):
            filled = [self.fill(value, origin) for value in data]
        return cast("Data", filled)

    def _value(self, found: re.Match[str], origin: Origin | None) -> str:
        name = found["name"]
        value = self.variables.find_secret(name) if found["env"] else self.variables.find(name)
        if value is None:
            return self._default(found, origin)
        if value.secret and value.text:
            self.secrets.add(value.text)
        return value.text

    @staticmethod
    def _default(found: re.Match[str], origin: Origin | None) -> str:
        default: str | None = found["default"]
        if default is not None:
            return default
        name = found["name"]
        where = (
            f"Set {name} in .env or in the environment" if found["env"] else f"Give it with --var {name}=… or in [vars]"
        )
        raise ArgumentError(
            "project.missing_variable",
            f"{found[0]} has no value.",
            f"{where}, or write a default: {found[0][:-1]}|…}}.",
            origin=origin,
        )
