"""`tidemill graph`: what reads what, and what is known of it without Spark, from files, logs and the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill import graphs
from tidemill.cli import examples, output, render
from tidemill.cli.projects import on_project
from tidemill.cli.render import Looks
from tidemill.errors import ArgumentError
from tidemill.formats.registry import changed_at, log_of, view_record
from tidemill.graphs.picture import MARKS, Box, Picture, Shape, tree
from tidemill.ledger import Ledger, ledger_file
from tidemill.ledger.past import last_step
from tidemill.model.query import Export, View
from tidemill.model.table import Table

if TYPE_CHECKING:
    from tidemill.api.workspace import Workspace
    from tidemill.cli import Output
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


HEADINGS = ("name", "strategy", "watermark", "changed", "status", "reads too")
_LOOKS = Looks(
    gives={
        "reads too": ("wrap", 12),
        "strategy": ("wrap", 12),
        "watermark": ("wrap", 12),
        "changed": ("drop", 0),
        "name": ("cut", 20),
    },
    paint={"status": render.red("failed")},
)


@click.command(
    epilog=examples(
        "tidemill graph",
        "tidemill graph ./shop --svg shop.svg --mermaid shop.mmd",
    ),
)
@on_project
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write it as an SVG too.")
@click.option("--mermaid", type=click.Path(path_type=Path), metavar="FILE", help="Write it as a Mermaid flowchart too.")
@output
def graph(workspace: Workspace, svg: Path | None, mermaid: Path | None, out: Output) -> None:
    """Show sources, tables, views and exports, each below what it reads: strategies, watermarks, freshness, status.

    Freshness is the time since the last commit. Starts no Spark.
    """
    now = datetime.now(UTC)
    picture = picture_of(workspace, now)
    wanted = ((svg, graphs.svg), (mermaid, graphs.mermaid))
    files = [_write(file, draw(picture)) for file, draw in wanted if file is not None]
    document = _data(workspace.project.name, picture, now) | {"written": files}
    out.result(document, partial(_show, workspace.project.name, picture, files))


def _data(project: str, picture: Picture, now: datetime) -> dict[str, Any]:
    nodes = [asdict(box) for box in picture.boxes]
    return {
        "project": project,
        "as_of": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "nodes": [{name: node[name] or None for name in node if name not in _SHOWN} for node in nodes],
        "edges": [{"from": start, "to": end} for start, end in picture.edges],
    }


_SHOWN = {"fresh", "reads"}  # JSON has moments for the one, edges for the other


def _show(project: str, picture: Picture, files: list[str]) -> None:
    render.say(f"{render.INDENT}{render.SEPARATOR.join([project, *_counted(picture)])}")
    lines = [
        (
            line.text,
            line.box.kind,
            line.box.watermark,
            line.box.fresh,
            line.box.status,
            ", ".join(box.name for box in line.also),
        )
        for line in tree(picture)
    ]
    if lines:
        render.table(HEADINGS, lines, looks=_LOOKS)
    for file in files:
        render.say(f"{render.INDENT}✓ {file} is written")


def _counted(picture: Picture) -> list[str]:
    """How many there are of each shape, with the mark that it has in the tree."""
    counts = Counter(box.shape for box in picture.boxes)
    words = [f"{MARKS[each]} {counts[each]} {each}{'' if counts[each] == 1 else 's'}" for each in MARKS if counts[each]]
    return words or [render.NOTHING_DECLARED]


def _write(file: Path, text: str) -> str:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise ArgumentError(
            "graph.unwritable",
            f"{file} cannot be written: {failure.strerror}.",
            "Name a file in a folder that is there and that you may write to.",
        ) from failure
    return str(file)
