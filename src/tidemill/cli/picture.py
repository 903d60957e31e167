"""What is known of a project's graph without Spark: from its files, the logs of its tables, and the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.cli import render
from tidemill.formats.log import changed_at, log_of, view_record
from tidemill.graphs.picture import Box, Picture, Shape
from tidemill.ledger.ledger import Ledger, ledger_file
from tidemill.ledger.past import last_step
from tidemill.model.query import Export, View
from tidemill.model.table import Table

if TYPE_CHECKING:
    from datetime import datetime

    from tidemill.api.workspace import Workspace
    from tidemill.model.graph import Node
    from tidemill.model.record import Snapshot

OK, NOT_RUN, CHANGED, FAILED = "ok", "not run yet", "query changed", "failed"
_OTHERS = "not declared here"  # a table that the warehouse or the session's catalog holds


def picture_of(workspace: Workspace, now: datetime) -> Picture:
    """The graph as it is at `now`. No secret is in it."""
    title = f"{workspace.project.name} · as of {now:%Y-%m-%d %H:%M} UTC"
    return Picture(workspace.masking.mask(title), tuple(_Boxes(workspace, now).found()))


class _Boxes:
    def __init__(self, workspace: Workspace, now: datetime) -> None:
        self.workspace, self.now = workspace, now
        self.ledger = Ledger(ledger_file(workspace.project.folder))
        self.boxes: dict[str, Box] = {}

    def found(self) -> list[Box]:
        """Each after what it reads; what comes from outside stands where it is first read."""
        for node in self.workspace.graph.in_order():
            reads = tuple(self._reads(node))
            self._add(self._box(node, reads))
        return list(self.boxes.values())

    def _reads(self, node: Node) -> list[str]:
        if isinstance(node, Table) and node.loads:
            return [self._source(load.input, load.source.name, load.source.kind.upper()) for load in node.loads]
        return [self._input(name.lower()) for name in node.inputs]

    def _input(self, name: str) -> str:
        if name in self.workspace.graph.nodes:
            return self._id(name)
        outside = self.workspace.outside.get(name)
        return self._source(name, outside.name, outside.kind.upper()) if outside else self._source(name, name, _OTHERS)

    def _source(self, key: str, name: str, kind: str) -> str:
        """Names of sources are a pipeline's own: another may have the same, and a table too."""
        return self._add(Box(self._id(f"source {key}"), self.workspace.short(name), Shape.SOURCE, kind))

    def _add(self, box: Box) -> str:
        self.boxes.setdefault(box.id, box)
        return box.id

    def _id(self, name: str) -> str:
        return self.workspace.masking.mask(name)

    def _box(self, node: Node, reads: tuple[str, ...]) -> Box:
        box = Box(
            id=self._id(node.name.lower()),
            name=self.workspace.short(node.name),
            shape=Shape.EXPORT if isinstance(node, Export) else Shape.VIEW,
            kind=f"export {node.mode}" if isinstance(node, Export) else "view",
            origin=str(node.origin or ""),
            reads=reads,
        )
        if isinstance(node, View):
            record = view_record(node.path)
            return replace(box, status=FAILED if self._has_failed(node, record.at if record else "") else "")
        return self._of_table(box, node) if isinstance(node, Table) else box

    def _of_table(self, box: Box, table: Table) -> Box:
        log = log_of(table)
        snapshot = log.snapshot()
        changed = changed_at(log, snapshot) if snapshot else ""
        watermark = snapshot.record.reached(table.input_names) if snapshot and snapshot.record else None
        return replace(
            box,
            shape=Shape.TABLE,
            kind=table.declared_strategy,
            watermark=str(watermark or ""),
            changed_at=changed,
            fresh=render.ago(changed, self.now) if changed else "",
            status=self._status(table, snapshot, changed),
        )

    def _status(self, table: Table, snapshot: Snapshot | None, changed_at: str) -> str:
        if self._has_failed(table, changed_at):
            return FAILED
        if snapshot is None:
            return NOT_RUN
        record = snapshot.record
        return CHANGED if record and record.sql_hash not in {None, table.sql_hash} else OK

    def _has_failed(self, node: Table | View, since: str) -> bool:
        last = last_step(self.ledger, node.path)
        return last is not None and last.status == "failed" and last.started >= since
