"""The error of a table and a change that have different columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence


def schema_changed(name: str, added: Sequence[str], missing: Sequence[str]) -> SchemaError:
    """`added` are columns that the table of this name lacks, `missing` those that its source lacks."""
    more = [f"the source also has {', '.join(added)}"] if added else []
    less = [f"the source lacks {', '.join(missing)}"] if missing else []
    rebuilt = "" if "/" in name else f", or rebuild the table with a run that has -s {name} --full-refresh"
    return SchemaError(
        "schema.changed",
        f"The columns of the source are not those of {name}: {'; '.join([*more, *less])}.",
        "Set on_schema_change (of a merge: schema_policy) to ignore, append_new_columns or sync_all_columns"
        f"{rebuilt}. The table is unchanged.",
    )
