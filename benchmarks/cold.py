"""The whole command `tidemill merge` from a cold start, against the same plain MERGE as a PySpark script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from merges import Claim
from stage import Duel, Stage, seconds

from tidemill.spark.jars import ensure_jars


def cold_command(stage: Stage, repeat: int) -> list[Claim]:
    claims = []
    for kind in ("tail", "spread"):
        duel = Duel(kind)
        for n in range(repeat):
            change = stage.change(kind, 300 + n)
            plain, ours = stage.copy(stage.plain, "plain_cold"), stage.copy(stage.ours, "ours_cold")
            duel.plain.append(seconds(run_command, [sys.executable, *script(change, plain)]))
            duel.ours.append(seconds(run_command, [tidemill_command(), "merge", str(change), str(ours), "--on", "k"]))
        plain_time, our_time = duel.medians
        detail = f"script {plain_time:.1f} s, command {our_time:.1f} s"
        claims.append(Claim(f"cold command, {kind}", our_time / plain_time, 0.65, at_least=False, detail=detail))
    return claims


def script(change: Path, table: Path) -> list[str]:
    jars = ",".join(map(str, ensure_jars()))
    return [str(Path(__file__).with_name("plain_script.py")), str(change), str(table), jars]


def tidemill_command() -> str:
    return str(Path(sys.executable).with_name("tidemill"))


def run_command(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
