"""What a table's files cannot follow: partitions are set when a table is made, and stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemill.declare.tables import Table


def layout_notices(table: Table, partitions: Sequence[str]) -> tuple[str, ...]:
    """That a table of these partitions is not laid out as declared now, and what applies the declaration."""
    if table.partition_by and _lower(table.partition_by) != _lower(partitions):
        wanted = f"partitions it by {', '.join(table.partition_by)}"
    elif table.cluster_by and partitions:
        wanted = f"clusters it by {', '.join(table.cluster_by)}"
    else:
        return ()
    held = f"partitioned by {', '.join(partitions)}" if partitions else "without partitions"
    return (f"{table.name} stays {held}; {table.command} --full-refresh {wanted}",)


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
