"""Which rows came and went between two versions of a table: what its log knows about them, or why it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.errors import TableError
from tidemill.formats.port import WEIGHT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame


class UnknownChanges(Exception):  # noqa: N818  an answer, which `InputChanges.refusal` gives to whoever asked
    """The rows that came and went cannot be known; the text says why."""


class GoneChanges(UnknownChanges):
    """They could be, until commits or files that say so were removed."""


def no_row_changes(path: str, reason: object) -> TableError:
    """The error for who asks for rows all the same."""
    return TableError(
        "table.no_row_changes",
        f"The rows of {path} that came and went are not known: {reason}.",
        "Read the table whole.",
    )


def net_rows(came: Iterable[DataFrame], went: Iterable[DataFrame]) -> DataFrame | None:
    """These rows in one frame with their WEIGHT; None without any frame."""
    both = ((1, came), (-1, went))
    signed = [rows.selectExpr("*", f"{sign} AS {WEIGHT}") for sign, frames in both for rows in frames]
    whole = None
    for rows in signed:
        whole = rows if whole is None else whole.unionAll(rows)
    return whole


def check_columns(
    older: Sequence[Mapping[str, Any]], newer: Sequence[Mapping[str, Any]], used: Sequence[str] | None
) -> None:
    """`UnknownChanges` where a column, as JSON has it, is another one by now; one that was added is NULL before."""
    now = {field["name"].lower(): field for field in newer}
    before = {field["name"].lower(): field for field in older}
    wanted = before if used is None else [name.lower() for name in used]
    called = {_physical(field): field["name"] for field in newer}
    for name in wanted:
        then, field = before.get(name), now.get(name)
        if then is None and field is None:
            raise UnknownChanges(f"it has no column {name}")
        if then is None:
            continue
        if field is None and _physical(then) in called:
            raise UnknownChanges(f"column {then['name']} was renamed to {called[_physical(then)]}")
        if field is None:
            raise UnknownChanges(f"column {then['name']} was dropped")
        if _physical(then) != _physical(field):
            raise UnknownChanges(f"column {then['name']} was dropped, and another one of that name was added")
        if _kind(then["type"]) != _kind(field["type"]):
            raise UnknownChanges(
                f"the type of column {then['name']} was changed{_from_to(then['type'], field['type'])}"
            )


def _physical(field: Mapping[str, Any]) -> str:
    """Under Delta's column mapping, the name of the column in the files."""
    return str((field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"]))


def _kind(kind: Any) -> Any:
    """A type without what does not matter to its values: comments, and whether they may be NULL."""
    if isinstance(kind, str):
        return kind
    fields = [(field["name"], _physical(field), _kind(field["type"])) for field in kind.get("fields", ())]
    return [
        kind["type"],
        fields,
        *(_kind(kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind),
    ]


def _from_to(older: Any, newer: Any) -> str:
    return f" from {older} to {newer}" if isinstance(older, str) and isinstance(newer, str) else ""
