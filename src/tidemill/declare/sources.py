"""A source: rows from outside, by its kind and what that kind takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tidemill.declare.names import spelled
from tidemill.declare.secrets import Masking, secrets_in
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tidemill.declare.durations import Duration
    from tidemill.errors import Origin

Value = TypeVar("Value")
SHARED = ("columns", "batch_size", "primary_key", "cursor_field", "start_date")  # the params that all kinds take


@dataclass(frozen=True, slots=True)
class Source:
    """Rows from outside. `params` are those of its kind; relative paths in them start at `folder`.

    `cursor`, `lookback` and `start` say which window of it a run reads; `columns` which columns there are, all
    where none are named. `secrets` are values that no text may show, beside those that `params` give away.
    """

    name: str
    kind: str
    params: Mapping[str, object] = field(default_factory=dict, repr=False)  # they may hold passwords
    cursor: str | None = None
    lookback: Duration | int | None = None
    start: str | None = None
    primary_key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    batch_size: int | None = None
    origin: Origin | None = None
    folder: Path | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise bad_param(self, "batch_size", "a whole number above zero")
        needed = [*self.primary_key, *([self.cursor] if self.cursor else [])]
        lost = [name for name in needed if self.columns and spelled(name, self.columns) is None]
        if lost:
            raise ArgumentError(
                "source.column_left_out",
                f"The columns of {self.name} leave out {', '.join(lost)}, which it needs as its cursor or key.",
                "Add them to columns.",
                origin=self.origin,
            )

    def __str__(self) -> str:
        return self.name

    @property
    def masking(self) -> Masking:
        """Hides its secrets: those given, and the values of passwords, tokens, headers and the like in `params`."""
        return Masking(self.secrets | secrets_in(self.params))


def source_of(
    name: str,
    kind: str,
    params: Mapping[str, object],
    *,
    cursor: str | None = None,
    lookback: Duration | int | None = None,
    start: str | None = None,
    primary_key: tuple[str, ...] = (),
    origin: Origin | None = None,
    folder: Path | None = None,
    secrets: frozenset[str] = frozenset(),
) -> Source:
    """The declaration that a kind and its params make, with the params that all kinds share taken out of them.

    Those are the `SHARED` ones; what is given beside the params wins over them.
    """
    bare = Source(name, kind, origin=origin)
    left = dict(params)

    def taken(param: str, read: Callable[[object], Value | None], wanted: str) -> Value | None:
        if left.get(param) is None:
            left.pop(param, None)
            return None
        value = read(left.pop(param))
        if value is None:
            raise bad_param(bare, param, wanted)
        return value

    by_param, by_date = taken("cursor_field", as_text, "a text"), taken("start_date", as_text, "a text")
    by_key = taken("primary_key", as_names, "a name or a list of names")
    return Source(
        name,
        kind,
        cursor=cursor or by_param,
        lookback=lookback,
        start=start or by_date,
        primary_key=primary_key or by_key or (),
        columns=taken("columns", as_names, "a name or a list of names") or (),
        batch_size=taken("batch_size", as_count, "a whole number above zero"),
        params=left,
        origin=origin,
        folder=folder,
        secrets=secrets,
    )


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_names(value: object) -> tuple[str, ...] | None:
    """One name, or a list of names."""
    names = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(str(name) for name in names) if names and all(as_text(name) for name in names) else None


def as_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def bad_param(source: Source, name: str, wanted: str) -> ArgumentError:
    return ArgumentError(
        "source.bad_param", f"{name} of the source {source} must be {wanted}.", "Correct it.", origin=source.origin
    )
