"""What the columns of a join are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.declare.names import spelled
from tidemill.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Named:
    """A column of the join: which side has it (None for the join itself), how it is called there, and here."""

    side: str | None
    column: str
    name: str


def named_columns(
    a: Sequence[str], b: Sequence[str], suffixes: tuple[str, str], own: Sequence[str]
) -> tuple[Named, ...]:
    """All columns: those of `a`, of `b` and the join's own; names that both sides have get their suffixes."""
    if len(suffixes) != len(("a", "b")) or not all(isinstance(each, str) for each in suffixes):
        problem = f"suffixes is {suffixes!r}."
        raise ArgumentError("join.bad_suffixes", problem, 'Give two texts, one for each side: ("", "_b").')
    found = [*_of_side("a", a, b, suffixes[0]), *_of_side("b", b, a, suffixes[1])]
    found += [Named(None, name, name) for name in own]
    seen: dict[str, Named] = {}
    for each in found:
        twin = seen.setdefault(each.name.lower(), each)
        if twin is not each:
            raise ArgumentError(
                "join.ambiguous_columns",
                f"The join would have two columns of the name {each.name}: {_described(twin)} and {_described(each)}.",
                "Rename one of them before, give other suffixes, or name the join's own by time= and status=.",
            )
    return tuple(found)


def selected(columns: Sequence[Named], select: Sequence[str] | None) -> tuple[Named, ...]:
    """The columns of these names, in this order; all where none are named."""
    if select is None:
        return tuple(columns)
    if not select:
        raise ArgumentError("join.no_columns", "select names no column.", "Name some, or leave it out to have all.")
    names = [each.name for each in columns]
    select = [select] if isinstance(select, str) else select
    return tuple(columns[names.index(_known(name, names))] for name in select)


def _known(name: str, names: Sequence[str]) -> str:
    found = spelled(name, names)
    if found is not None:
        return found
    close = did_you_mean(name, names)
    hint = f"Did you mean {close}? " if close else ""
    raise ArgumentError(
        "join.unknown_column", f"The join has no column {name}.", f"{hint}Its columns are: {', '.join(names)}."
    )


def _of_side(side: str, own: Sequence[str], other: Sequence[str], suffix: str) -> Iterator[Named]:
    for name in own:
        yield Named(side, name, f"{name}{suffix}" if spelled(name, other) is not None else name)


def _described(column: Named) -> str:
    return f"{column.side}.{column.column}" if column.side else f"the join's own {column.column}"
