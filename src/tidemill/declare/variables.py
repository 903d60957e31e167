"""Variables and where their values come from: the first place that has one wins."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


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
