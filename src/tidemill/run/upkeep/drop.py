"""Removes a table for good; refuses where its history is to be kept."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

from tidemill.declare.paths import on_this_machine
from tidemill.errors import TableError
from tidemill.plan.refusals import protection
from tidemill.state.folders import file_system
from tidemill.stores.lock import only_writer

if TYPE_CHECKING:
    from tidemill.contracts.snapshots import Snapshot
    from tidemill.declare.tables import Table


def refuse_reset(name: str, snapshot: Snapshot, declared: Table | None) -> None:
    """Raises where the declaration, the table, or a declaration that is gone says that its history is to be kept."""
    found = protection(snapshot, declared)
    if found is None:
        return
    said, lifted = found
    rows = "its" if snapshot.rows is None else f"{snapshot.rows:,}"
    raise TableError(
        "table.reset_refused",
        f"{name} {said}: {rows} rows of history would be dropped.",
        f"Take a backup (tidemill backup {name}), then {lifted}.",
        origin=declared.origin if declared else None,
    )


def drop_table(path: str) -> None:
    """Removes the table at a path; on a local disk at once, so that a kill leaves no half of it."""
    folder = on_this_machine(path)
    if folder is None:
        files, root = file_system(path)
        files.delete_dir(root)
        return
    going = folder.with_name(f".{folder.name}.tidemill-dropped-{uuid.uuid4().hex}")
    with only_writer(path):
        folder.rename(going)
    shutil.rmtree(going)
