"""A process of its own that writes to disks that are full, and prints the errors as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from click.testing import CliRunner

import tidemill
from tidemill.cli.main import tidemill as command
from tidemill.spark import jar_folder
from tidemill.spark.jars import ensure_jars
from tidemill.spark.session import embedded

SPARE = 50_000  # bytes that Spark's temporary files still have


def rows(count: int) -> pa.Table:
    """Rows that cannot be compressed."""
    noise = np.random.default_rng(1).integers(10**17, 10**18, (2, count)).astype(str)
    return pa.table({"id": range(count), "v": np.char.add(noise[0], noise[1])})


def told(target: Path, kind: str, given: pa.Table | Path) -> str:
    try:
        return str(tidemill.merge(given, target, on="id", format=kind).total)
    except tidemill.TidemillError as failure:
        return str(failure)


def exported(project: Path, place: Path) -> dict[str, str]:
    """What becomes of exports whose rows do not fit where they go."""
    (project / "pipelines").mkdir(parents=True)
    (project / "tidemill.toml").touch()
    query = "SELECT id, sha2(cast(id AS string), 512) AS v FROM range(100000)"
    kinds = ("csv", "parquet")
    statements = [f'EXPORT {query} TO "{place}/{kind}" TYPE {kind.upper()};' for kind in kinds]
    (project / "pipelines" / "p.sql").write_text("\n".join(statements))
    outcome = tidemill.Project.load(project).run(threads=1)
    return dict(zip(kinds, (str(step.error) for step in outcome.steps), strict=True))


def fetched(home: Path, settings: Path) -> str:
    """What becomes of Delta's jars, which a mirror has and the home folder has no room for."""
    pattern = f"{jar_folder()}/[artifact]-[revision].[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="from"/><resolvers><filesystem name="from">'
        f'<artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>'
    )
    os.environ |= {"TIDEMILL_HOME": str(home), "TIDEMILL_IVY_SETTINGS": str(settings)}
    try:
        return str(ensure_jars())
    except tidemill.TidemillError as failure:
        return str(failure)
    finally:
        del os.environ["TIDEMILL_HOME"], os.environ["TIDEMILL_IVY_SETTINGS"]


def fill(file: Path, spare: int = SPARE) -> None:
    file.write_bytes(bytes(max(shutil.disk_usage(file.parent).free - spare, 0)))


def vacuumed(table: Path) -> str:
    """What a vacuum says that is to make room on a disk without a single free byte."""
    fill(table.parent / "filler", spare=0)
    return CliRunner().invoke(command, ["vacuum", str(table), "--retain", "0 hours", "--confirm"]).output


def data(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.parquet"))


def main() -> None:
    disks, temp, free = (Path(argument) for argument in sys.argv[1:])
    os.environ["SPARK_LOCAL_DIRS"] = str(temp)
    embedded(small=True)
    few, many = rows(10), rows(100_000)
    found: dict[str, object] = {}
    for kind in ("delta", "parquet"):  # each has a disk of its own: Java frees the files of a failed write late
        new, held = disks / f"new-{kind}" / "orders", disks / kind / "orders"
        found[f"new {kind}"] = (told(new, kind, many), data(new))
        told(held, kind, few)
        found[kind] = (told(held, kind, many), data(held), len(tidemill.history(held)))
    found["vacuum"] = (vacuumed(held := disks / "delta" / "orders"), data(held))
    found["exports"] = exported(free / "project", disks / "exports")
    found["jars"] = fetched(disks / "home", free / "ivysettings.xml")
    fill(temp / "filler")
    found["scratch"] = (told(free / "orders", "delta", many), data(free))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
