"""What a verification finds, in the ledger of its project."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill.ledger import Ledger, Step, ledger_file, now
from tidemill.verify.result import Kind, Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tidemill.model.project import Masking
    from tidemill.model.table import Table


def record_results(
    results: Iterator[Verified],
    tables: Sequence[Table],
    names: Sequence[str],
    folder: Path,
    masking: Masking,
    short: Callable[[str], str],
) -> Iterator[Verified]:
    """The results as they come, each written to the ledger of the project in `folder` under the `names` asked for."""
    paths = {table.name: table for table in tables}
    with Ledger(ledger_file(folder)).run(" ".join(["verify", *names]), folder) as run:
        at, began = now(), time.monotonic()
        for result in results:
            run.ok = run.ok and result.ok
            step = _step(result, paths[result.table], masking, at, time.monotonic() - began)
            run.add(replace(step, table=short(step.table)))
            yield result
            at, began = now(), time.monotonic()


def _step(result: Verified, table: Table, masking: Masking, at: str, seconds: float) -> Step:
    found = [f"{result.of(kind).count:,} {kind}" for kind in Kind if result.of(kind).count]
    error = result.error
    why = [result.extent, *(found or result.notes)]
    return Step(
        table=masking.mask(table.name),
        path=masking.mask(table.path),
        strategy=str(table.strategy),
        mode="verify",
        status=str(result.outcome),
        at=at,
        rows_read=result.rows if result.outcome.equal is not None and error is None else None,
        seconds=round(seconds, 3),
        reason=masking.mask(", ".join(filter(None, why))) or None,
        error_code=error.code if error else None,
        error=masking.mask(error.problem) if error else None,
    )
