"""Merges into Delta tables of ten and thirty million rows, side by side with a plain MERGE, in a warm session."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from stage import Duel, Stage, our_merge, plain_merge, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KINDS = ("tail", "spread", "new", "same")


@dataclass(frozen=True)
class Claim:
    """A figure with the bound that the project holds it to."""

    what: str
    figure: float
    bound: float
    at_least: bool
    detail: str

    @property
    def holds(self) -> bool:
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound


SPEEDUPS = {  # by kind: at 10 million rows, at 30 million rows
    "spread": (1.8, 3.0),
    "tail": (1.0, 1.0),
    "new": (1.0, 1.5),
    "same": (2.0, 2.0),
}


WARM_UP = 3  # rounds before the clock counts: Java compiles what runs often


def single_changes(stage: Stage, repeat: int, *, small: bool) -> dict[str, Duel]:
    """Each kind of change on fresh copies, plain and ours in turn, in a session that has done all of it before."""
    duels = {kind: Duel(kind) for kind in KINDS}
    for n in range(-1 if small else -WARM_UP, repeat):
        for kind, duel in duels.items():
            change = stage.change("spread", 0) if kind == "same" else stage.change(kind, n + WARM_UP + 1)
            plain, ours = stage.copy(stage.plain, "plain_copy"), stage.copy(stage.ours, "ours_copy")
            duel.fight(
                partial(plain_merge, stage.spark, change, plain),
                partial(our_merge, stage.spark, change, ours),
                counts=n >= 0,
            )
    return duels


def single_claims(stages: Sequence[Stage], sizes: Sequence[int], repeat: int, *, small: bool) -> list[Claim]:
    """The single changes on each size of table, and what the size costs a change at the tail."""
    duels = [single_changes(stage, repeat, small=small) for stage in stages]
    claims = [claim for found, rows in zip(duels, sizes, strict=True) for claim in claims_of(found, rows)]
    return [*claims, flat_tail(duels[0]["tail"], duels[1]["tail"])] if len(duels) > 1 else claims


def claims_of(duels: dict[str, Duel], rows: int) -> list[Claim]:
    column = 0 if rows <= 10_000_000 else 1
    return [
        Claim(f"{kind} at {_millions(rows)}", duel.speedup, SPEEDUPS[kind][column], at_least=True, detail=_detail(duel))
        for kind, duel in duels.items()
    ]


def flat_tail(small: Duel, large: Duel) -> Claim:
    ratio = large.medians[1] / small.medians[1]
    return Claim(
        "tail, 30M against 10M",
        ratio,
        1.3,
        at_least=False,
        detail=f"{small.medians[1]:.2f} s → {large.medians[1]:.2f} s",
    )


def ten_changes(stage: Stage, repeat: int) -> list[Claim]:
    """Spread and tail in turn, ten in all: who keeps the key order stays fast."""
    duel, lasts, reads = Duel("ten changes"), [], []
    for round_ in range(repeat):
        plain, ours = stage.copy(stage.plain, "plain_ten"), stage.copy(stage.ours, "ours_ten")
        changes = [stage.change("spread" if n % 2 == 0 else "tail", 100 + round_ * 10 + n) for n in range(10)]
        duel.plain.append(sum(seconds(plain_merge, stage.spark, c, plain) for c in changes))
        each = [seconds(our_merge, stage.spark, c, ours) for c in changes]
        duel.ours.append(sum(each))
        lasts.append(each[9] / each[1])
        reads.append(_reading(stage, ours) / _reading(stage, stage.copy(stage.ours, "ours_fresh")))
    middle = sorted(reads)[len(reads) // 2]
    return [
        Claim("ten changes in turn", duel.speedup, 3.0, at_least=True, detail=_detail(duel)),
        Claim(
            "last tail against first", sorted(lasts)[len(lasts) // 2], 1.3, at_least=False, detail="pruning as before"
        ),
        Claim("reading afterwards", middle, 1.3, at_least=False, detail="against a fresh table"),
    ]


def tenth_changed(stage: Stage, repeat: int) -> Claim:
    duel = Duel("10% changed")
    for n in range(repeat):
        change = stage.change("spread", 200 + n, stage.rows // 10)
        plain, ours = stage.copy(stage.plain, "plain_tenth"), stage.copy(stage.ours, "ours_tenth")
        duel.fight(partial(plain_merge, stage.spark, change, plain), partial(our_merge, stage.spark, change, ours))
    return Claim("10% of the rows changed", duel.speedup, 1.0, at_least=True, detail=_detail(duel))


def first_load(stage: Stage, repeat: int, *, small: bool) -> Claim:
    """A new table, in a session that has made some before."""
    duel = Duel("first load")
    for n in range(-1 if small else -WARM_UP, repeat):
        plain, ours = stage.folder / "plain_first", stage.folder / "ours_first"
        duel.fight(
            partial(_plain_load, stage, plain),
            partial(our_merge, stage.spark, stage.source, ours),
            counts=n >= 0,
        )
        for table in (plain, ours):
            shutil.rmtree(table)
    return Claim("first load", duel.speedup, 0.9, at_least=True, detail=_detail(duel))


def _plain_load(stage: Stage, target: Path) -> None:
    stage.spark.read.parquet(str(stage.source)).write.format("delta").save(str(target))


def _reading(stage: Stage, table: Path) -> float:
    def read() -> None:
        stage.spark.read.format("delta").load(str(table)).selectExpr(
            "sum(k)", "sum(value)", "max(s)", "sum(part)"
        ).collect()

    read()
    return min(seconds(read) for _ in range(3))


def _detail(duel: Duel) -> str:
    plain, ours = duel.medians
    return f"plain {plain:.2f} s, ours {ours:.2f} s"


def _millions(rows: int) -> str:
    return f"{rows / 1e6:g}M"
