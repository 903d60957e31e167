"""What a view needs of its inputs' history is missed by nobody: `status` warns before it ends, `vacuum` leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from pace import second

from tidemill import Record
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.formats.delta.log import APP_ID, DeltaLog
from tidemill.model.record import content_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from pyspark.sql import SparkSession

    from tidemill.model.table import Table

DAY = 86_400_000
FILES, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
PIPELINE = """
CREATE MATERIALIZED VIEW big_ones OPTIONS { "refresh": "%s" } AS SELECT id, v FROM orders WHERE v > 1;
"""


@dataclass
class Shop:
    """A project with one view, which is said to have been refreshed with the first version of its input."""

    folder: Path
    refresh: str = "incremental"
    version: int = 0

    @property
    def orders(self) -> Path:
        return self.folder / "lake" / "orders"

    @property
    def pipeline(self) -> Path:
        return self.folder / "pipelines" / "p.sql"

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.orders)

    def refreshed(self, refresh: str = "incremental") -> None:
        """The view as a run would leave it now, but for its rows, which nobody here reads."""
        self.pipeline.parent.mkdir(exist_ok=True)
        self.pipeline.write_text(PIPELINE % refresh)
        self.refresh, self.version = refresh, self.table.version()
        self._record()

    def _record(self) -> None:
        commit = DeltaLog(str(self.orders)).commit(self.version)
        assert commit is not None
        content = content_of(str(self.table.metadata().id), self.version, commit.id)
        for table in Workspace.load().tables:
            self._record_of(table, content)

    def _record_of(self, table: Table, content: str) -> None:
        record = Record(
            run_id="run-0",
            table=table.name,
            sequence=1,
            strategy=str(table.strategy),
            at="2024-02-01T06:00:00.000Z",
            held=0,
            sql_hash=table.sql_hash,
            config_hash=table.config_hash,
            input_versions={table.input: json.dumps({"main.orders": content})},
        )
        said = deltalake.CommitProperties(
            {"userMetadata": record.to_json()}, app_transactions=[deltalake.Transaction(APP_ID, 1)]
        )
        write_deltalake(table.path, some(2), mode="overwrite", commit_properties=said)

    def age(self, days: float, *versions: int) -> None:
        """Commits of the input are of so many days ago, and so is what they say of removed files."""
        for version in versions:
            entry = self.orders / "_delta_log" / f"{version:020d}.json"
            actions = [json.loads(line) for line in entry.read_text().splitlines()]
            for action in actions:
                for kind, moment in (("commitInfo", "timestamp"), ("remove", "deletionTimestamp")):
                    if kind in action:
                        action[kind][moment] = int(time.time() * 1000 - days * DAY)
            entry.write_text("\n".join(map(json.dumps, actions)))
        self._record()  # these commits have other ids by now

    def call(self, *args: object) -> Result:
        return CliRunner().invoke(tidemill, [str(arg) for arg in args])

    def told(self) -> dict[str, Any] | None:
        """What `status` says of the view's input, as data."""
        done = self.call("status", "--format", "json")
        assert done.exit_code == 0, done.output
        (view,) = json.loads(done.stdout)["tables"]
        return next(iter(view["history"]), None)


def some(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(ids, pa.int64())})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidemill.toml").write_text('[sources.orders]\ntype = "delta"\npath = "lake/orders"\n')
    found = Shop(tmp_path)
    write_deltalake(found.orders, some(1, 2, 3), configuration={"delta.checkpointInterval": "100"})
    found.refreshed()
    return found


def days_until(told: dict[str, Any] | None) -> int:
    assert told is not None
    return round((datetime.fromisoformat(told["until"]) - datetime.now(UTC)).total_seconds() * 1000 / DAY)


def delete(table: DeltaTable) -> None:
    table.delete("id = 3")


def append(table: DeltaTable) -> None:
    write_deltalake(table, some(4), mode="append")


def compact(table: DeltaTable) -> None:
    table.optimize.compact()


def keep_longer(table: DeltaTable) -> None:
    table.alter.set_table_properties({FILES: "interval 20 days"})


@pytest.mark.parametrize(
    ("steps", "age", "setting", "days"),
    [
        ([delete], 5, None, None),
        ([delete], 6, FILES, 1),
        ([delete], 9, FILES, -2),
        ([keep_longer, delete], 14, None, None),
        ([keep_longer, delete], 16, FILES, 4),
        ([append], 20, None, None),
        ([append], 25, LOG, 5),
        ([append], 40, LOG, -10),
        ([append, compact], 6, FILES, 1),  # the file that came is needed, and was joined with the others
        ([append, compact], 5, None, None),
    ],
)
def test_status_warns_before_the_history_ends_that_the_next_refresh_needs(
    shop: Shop, steps: list[Callable[[DeltaTable], None]], age: int, setting: str | None, days: int | None
) -> None:
    for step in steps:
        step(shop.table)
    shop.age(age, *range(len(steps) + 1))
    told = shop.told()
    assert (told and told["setting"]) == setting
    if told is not None:
        assert (told["input"], told["version"], told["gone"], days_until(told)) == ("orders", 0, None, days)


def test_files_that_were_only_joined_and_files_that_came_and_went_are_not_needed(shop: Shop) -> None:
    append(shop.table)
    shop.refreshed()
    compact(shop.table)
    write_deltalake(shop.table, some(9), mode="append")
    shop.table.delete("id = 9")
    shop.age(6, 0, 1, 2, 3, 4)
    assert shop.told() is None
    shop.table.delete("id = 1")  # of the joined file
    shop.age(6, 5)
    assert (shop.told() or {})["setting"] == FILES


def test_status_says_what_to_do_and_what_the_next_run_does_once_it_is_too_late(shop: Shop) -> None:
    delete(shop.table)
    shop.age(6, 0, 1)
    rest = f"run it before (tidemill run -s big_ones), or set {FILES} of orders to a longer time"
    shown = " ".join(shop.call("status").output.split())
    assert "! big_ones its next run needs the changes of orders since version 0, which are kept until " in shown
    assert rest in shown
    shop.age(8, 0, 1)
    shown = " ".join(shop.call("status").output.split())
    assert f"which may be removed at any time: {rest.replace('before', 'now')}" in shown
    for file in shop.orders.glob("*.parquet"):
        if file.name not in {Path(each).name for each in shop.table.file_uris()}:
            file.unlink()
    gone = "orders: version 0 is no longer there (kept for 7 days); set delta.deletedFileRetentionDuration, or run "
    assert f"! big_ones next run: fails: {gone}more often" in " ".join(shop.call("status").output.split())
    shop.age(1, 0, 1)  # whenever it was
    assert gone in (shop.told() or {})["gone"]
    shop.refreshed("full")
    assert shop.told() is None


def test_a_view_that_is_computed_whole_all_the_same_needs_no_history(shop: Shop) -> None:
    delete(shop.table)
    shop.age(6, 0, 1)
    assert shop.told() is not None
    shop.pipeline.write_text(shop.pipeline.read_text().replace("v > 1", "v > 0"))
    assert shop.told() is None
    shop.refreshed("auto")  # of small tables all is read sooner
    assert shop.told() is None


def test_thirty_views_whose_input_changed_take_about_a_second_of_work_and_no_spark(shop: Shop) -> None:
    view = "CREATE MATERIALIZED VIEW v{} OPTIONS {{ 'refresh': 'incremental' }} AS SELECT id FROM orders WHERE v > {};"
    shop.pipeline.write_text("\n".join(view.format(n, n) for n in range(30)).replace("'", '"'))
    shop.age(1, 0)
    delete(shop.table)
    code = (
        "import resource, sys; from tidemill.cli.main import tidemill\n"
        "try: tidemill.main(['status'])\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    found = sorted({'pyspark', 'py4j', 'pandas', 'rich'} & set(sys.modules))\n"
        f"    print(used.ru_utime + used.ru_stime < {1.5 * second()}, found, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "True []\n"


def test_vacuum_removes_nothing_that_a_view_has_yet_to_follow(shop: Shop) -> None:
    delete(shop.table)
    shop.age(9, 0, 1)
    refused = shop.call("vacuum", "lake/orders")
    assert refused.exit_code == 2
    assert " ".join(refused.output.split()) == (
        f"error[vacuum.followed] big_ones from version 0 on has yet to follow the changes of {shop.orders}, and files "
        "would be removed that these are read from: the next run would have to compute all rows. Run first: tidemill "
        'run -s big_ones; or retain files for longer: --retain "10 days". Nothing was removed.'
    )
    assert len(list(shop.orders.glob("*.parquet"))) == 2


def test_vacuum_removes_what_no_view_needs(shop: Shop, spark: SparkSession) -> None:
    """Once the view has followed, or where it would be computed whole anyway; and a dry run may always be asked."""
    del spark
    delete(shop.table)
    shop.age(9, 0, 1)
    for file in shop.orders.glob("*.parquet"):
        os.utime(file, (time.time() - 10 * DAY / 1000,) * 2)
    assert "1 file" in shop.call("vacuum", "lake/orders", "--dry-run").output
    asked = ("vacuum", "lake/orders", "--retain", "20 days")
    assert "nothing to remove" in shop.call(*asked).output
    shop.refreshed()
    assert "1 file" in shop.call("vacuum", "lake/orders").output
