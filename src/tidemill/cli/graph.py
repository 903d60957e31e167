"""`tidemill graph`: what reads what, on the terminal, as SVG, as Mermaid."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli import render
from tidemill.cli.options import on_project, output
from tidemill.cli.render import Looks
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from tidemill.api.workspace import Workspace
    from tidemill.graphs.picture import Picture

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
    short_help="Show what reads what, and how fresh it is.",
    epilog="\b\nExamples:\n  tidemill graph\n  tidemill graph ./shop --svg shop.svg --mermaid shop.mmd",
)
@on_project
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Write it as an SVG too.")
@click.option("--mermaid", type=click.Path(path_type=Path), metavar="FILE", help="Write it as a Mermaid flowchart too.")
@output
def graph(workspace: Workspace, svg: Path | None, mermaid: Path | None, form: str, quiet: bool) -> None:
    """Show sources, tables, views and exports, each below what it reads: strategies, watermarks, freshness, status.

    Freshness is the time since the last commit. Starts no Spark.
    """
    from tidemill import graphs as drawing  # noqa: PLC0415
    from tidemill.cli.picture import picture_of  # noqa: PLC0415

    now = datetime.now(UTC)
    picture = picture_of(workspace, now)
    wanted = ((svg, drawing.svg), (mermaid, drawing.mermaid))
    files = [_write(file, draw(picture)) for file, draw in wanted if file is not None]
    if form == "json":
        render.document(_data(workspace.project.name, picture, now) | {"written": files})
    elif not quiet:
        _show(workspace.project.name, picture)
        for file in files:
            render.say(f"{render.INDENT}✓ {file} is written")


def _data(project: str, picture: Picture, now: datetime) -> dict[str, Any]:
    from dataclasses import asdict  # noqa: PLC0415

    nodes = [asdict(box) for box in picture.boxes]
    return {
        "project": project,
        "as_of": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "nodes": [{name: node[name] or None for name in node if name not in _SHOWN} for node in nodes],
        "edges": [{"from": start, "to": end} for start, end in picture.edges],
    }


_SHOWN = {"fresh", "reads"}  # JSON has moments for the one, edges for the other


def _show(project: str, picture: Picture) -> None:
    from tidemill.graphs.picture import tree  # noqa: PLC0415

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


def _counted(picture: Picture) -> list[str]:
    """How many there are of each shape, with the mark that it has in the tree."""
    from tidemill.graphs.picture import MARKS  # noqa: PLC0415

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
