"""Like with like: a plain MERGE and ours on copies of one table, as whole commands and in a warm session.

The table is one that Spark made, without deletion vectors, and one that Tidemill made, with them.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from cold import run_command, script, tidemill_command
from merges import WARM_UP, Claim
from stage import Duel, Stage, our_merge, plain_merge, seconds

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("tail", "spread", "tenth")


def same_table(stage: Stage, repeat: int, *, small: bool) -> list[Claim]:
    """Never slower than the plain MERGE, cold or warm, whoever made the table."""
    tables = {"Spark": stage.plain, "Tidemill": stage.ours}
    pairs = [(made_by, kind) for made_by in tables for kind in KINDS]
    cold = [_claim(f"cold, {kind}, made by {by}", _cold(stage, tables[by], kind, repeat)) for by, kind in pairs]
    warm = [_claim(f"warm, {kind}, made by {by}", _warm(stage, tables[by], kind, repeat, small)) for by, kind in pairs]
    return [*cold, *warm]


def _claim(what: str, duel: Duel) -> Claim:
    plain, ours = duel.medians
    return Claim(what, ours / plain, 1.0, at_least=False, detail=f"plain {plain:.2f} s, ours {ours:.2f} s")


def _change(stage: Stage, kind: str, salt: int) -> Path:
    return stage.change("spread", salt, stage.rows // 10) if kind == "tenth" else stage.change(kind, salt)


def _cold(stage: Stage, table: Path, kind: str, repeat: int) -> Duel:
    duel = Duel(kind)
    for n in range(repeat):
        change = _change(stage, kind, 400 + n)
        plain, ours = stage.copy(table, "plain_same"), stage.copy(table, "ours_same")
        duel.plain.append(seconds(run_command, [sys.executable, *script(change, plain)]))
        duel.ours.append(seconds(run_command, [tidemill_command(), "merge", str(change), str(ours), "--on", "k"]))
    return duel


def _warm(stage: Stage, table: Path, kind: str, repeat: int, small: bool) -> Duel:
    duel = Duel(kind)
    for n in range(-1 if small else -WARM_UP, repeat):
        change = _change(stage, kind, 500 + WARM_UP + n)
        plain, ours = stage.copy(table, "plain_same"), stage.copy(table, "ours_same")
        duel.fight(
            partial(plain_merge, stage.spark, change, plain),
            partial(our_merge, stage.spark, change, ours),
            counts=n >= 0,
        )
    return duel
