"""Several LOADs into one table, in one file: one step, and a result that does not depend on when runs happened."""

from __future__ import annotations

import json
import random
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemill import Cursor, Record
from tidemill.api.workspace import Workspace
from tidemill.cli.main import tidemill
from tidemill.errors import TidemillError
from tidemill.formats.delta.log import DeltaLog
from tidemill.planning import Backfill, Request
from tidemill.results import CursorKind, InputRecord

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.conftest import Shop

USERS = """
SOURCE users_csv TYPE CSV PARAMS { "path": "data/users.csv" };
SOURCE new_users TYPE CSV PARAMS { "path": "data/new.csv" };
SOURCE corrections TYPE CSV PARAMS { "path": "data/corrections.csv" };
LOAD users FROM users_csv;
LOAD users FROM new_users MODE APPEND;
LOAD users FROM corrections MODE MERGE ON user_id;
"""
TWO = """
SOURCE eu TYPE CSV PARAMS { "path": "data/eu.csv" } INCREMENTAL BY at;
SOURCE us TYPE CSV PARAMS { "path": "data/us.csv" } INCREMENTAL BY at;
"""
MERGES = f"{TWO}LOAD users FROM eu MODE MERGE ON id;\nLOAD users FROM us MODE MERGE ON id;\n"
APPENDS = f"{TWO}LOAD users FROM eu MODE APPEND;\nLOAD users FROM us MODE APPEND;\n"
MIXED = f"{TWO}LOAD users FROM eu MODE APPEND;\nLOAD users FROM us MODE MERGE ON id;\n"
BOTH = ["shop.eu", "shop.us"]
APART = MERGES.replace('us.csv" } INCREMENTAL BY at', 'us.csv" }')


def day(number: int) -> str:
    return f"2024-01-{number:02} 00:00:00"


def feed(shop: Shop, **sources: list[tuple[int, int, str]]) -> Shop:
    """Sources of (id, day, name)."""
    for name, rows in sources.items():
        shop.data(f"{name}.csv", "id at name", *[(key, day(at), text) for key, at, text in rows])
    return shop


def held(shop: Shop) -> list[tuple[int, int, str]]:
    return sorted((key, at.day, name) for key, at, name in shop.rows("users"))


def sizes(shop: Shop, *names: str) -> int:
    return sum((shop.folder / "data" / f"{name}.csv").stat().st_size for name in names)


def verified(shop: Shop) -> bool | None:
    (found,) = shop.load().verify(["users"], shop.spark)
    assert found.error is None, found.error
    return found.equal


def failed(shop: Shop) -> TidemillError:
    version = shop.version("users")
    error = shop.run()["users"].error
    assert isinstance(error, TidemillError)
    assert shop.version("users") == version
    return error


def asked(shop: Shop, *args: str) -> Any:
    result = CliRunner().invoke(tidemill, [args[0], str(shop.file), *args[1:], "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_leading_replace_gives_what_all_loads_give_to_an_empty_table(shop: Shop) -> None:
    shop.says(USERS).data("users.csv", "user_id name", (1, "ann"), (2, "bob"))
    shop.data("new.csv", "user_id name", (3, "cid"))
    shop.data("corrections.csv", "user_id name", (2, "Bob"))
    first = shop.step("users")
    assert (first.counts.inserted, first.rows_read, shop.version("users")) == (3, 4, 0)  # 4 rows of 3 sources
    assert shop.rows("users") == [(1, "ann"), (2, "Bob"), (3, "cid")]
    again = shop.step("users")
    assert (again.status, again.rows_read, shop.version("users")) == ("up to date", 0, 0)
    shop.data("corrections.csv", "user_id name", (1, "Ann"))
    changed = shop.step("users")
    assert (changed.rows_read, changed.bytes_read) == (4, sizes(shop, "users", "new", "corrections"))
    assert (changed.counts.updated, changed.counts.written, changed.counts.unchanged) == (2, 2, 1)
    assert shop.rows("users") == [(1, "Ann"), (2, "bob"), (3, "cid")]
    assert (shop.version("users"), verified(shop)) == (1, True)
    shop.data("corrections.csv", "user_id name", (1, "Ann"), (4, "dot"))
    shop.data("new.csv", "user_id name")
    assert shop.load().run(shop.spark, request=Request(full_refresh=True)).ok
    assert shop.rows("users") == [(1, "Ann"), (2, "bob"), (4, "dot")]
    assert (shop.version("users"), shop.step("users").status) == (2, "up to date")


def test_merges_with_a_common_cursor_take_the_newest_row_and_ties_go_to_the_later_load(shop: Shop) -> None:
    feed(
        shop.says(MERGES), eu=[(1, 5, "eu"), (2, 3, "eu"), (3, 1, "eu")], us=[(1, 5, "us"), (2, 2, "us"), (4, 9, "us")]
    )
    first = shop.step("users")
    assert held(shop) == [(1, 5, "us"), (2, 3, "eu"), (3, 1, "eu"), (4, 9, "us")]
    assert (first.counts.inserted, first.rows_read, str(first.watermark)) == (4, 6, "2024-01-05 00:00:00 UTC")
    assert first.notices == ("2 rows skipped: another source has a newer row of the same key",)
    # Only eu has changed: what it ties with in us, which its window reads again, still goes to us.
    feed(shop, eu=[(1, 5, "eu"), (2, 3, "eu"), (3, 1, "eu"), (5, 5, "eu"), (4, 8, "eu")])
    second = shop.step("users")
    assert second.bytes_read == sizes(shop, "eu", "us")
    assert held(shop) == [(1, 5, "us"), (2, 3, "eu"), (3, 1, "eu"), (4, 9, "us"), (5, 5, "eu")]
    assert (second.counts.inserted, second.counts.updated, second.counts.unchanged) == (1, 0, 2)
    assert [each["watermark"][:10] for each in asked(shop, "show-watermarks")["watermarks"]] == [
        "2024-01-08",
        "2024-01-09",
    ]
    # us begins behind all that eu has: eu is as it was, and is not read.
    feed(shop, us=[(1, 5, "us"), (2, 2, "us"), (4, 9, "us"), (2, 10, "us")])
    third = shop.step("users")
    assert third.bytes_read == sizes(shop, "us")
    assert (third.rows_read, third.counts.updated, shop.step("users").status) == (2, 1, "up to date")
    assert verified(shop) is True
    assert shop.load().plan()[0].reason == "up to date: its inputs are unchanged"


def test_without_a_common_cursor_a_key_from_two_sources_is_an_error_whenever_it_comes(shop: Shop) -> None:
    feed(shop.says(APART), eu=[(1, 1, "eu")], us=[(2, 1, "us")])
    assert shop.step("users").counts.inserted == 2
    feed(shop, us=[(2, 1, "us"), (3, 1, "us")])
    assert shop.step("users").counts.inserted == 1
    feed(shop, us=[(1, 9, "us"), (2, 1, "us")])  # eu, which brought 1 in an earlier run, is as it was
    error = failed(shop)
    assert error.code == "load.key_from_two_sources"
    assert error.problem == "1 key comes into users from more than one source (eu, us): 1."
    feed(shop, us=[(2, 1, "us"), (7, 1, "us")], eu=[(1, 1, "eu"), (7, 2, "eu")])
    assert failed(shop).problem.endswith("(eu, us): 7.")
    feed(shop, us=[(1, 1, "eu"), (2, 4, "us")], eu=[(1, 1, "eu")])  # the same row from both is one row
    assert shop.step("users").counts.updated == 1
    assert held(shop) == [(1, 1, "eu"), (2, 4, "us"), (3, 1, "us")]


def test_appends_are_one_change_and_the_same_row_of_two_sources_enters_twice(shop: Shop) -> None:
    feed(shop.says(APPENDS), eu=[(1, 1, "a"), (2, 5, "b")], us=[(3, 9, "c")])
    assert (shop.step("users").counts.inserted, shop.version("users")) == (3, 0)
    feed(shop, us=[(3, 9, "c"), (4, 9, "d")])
    second = shop.step("users")  # eu ends before the window of us begins: it is not read
    assert (second.counts.inserted, second.rows_read) == (1, 2)
    # eu is behind us, and gives a row that us has given already.
    feed(shop, eu=[(1, 1, "a"), (2, 5, "b"), (3, 9, "c"), (9, 6, "e")])
    assert shop.step("users").counts.inserted == 2
    assert held(shop) == [(1, 1, "a"), (2, 5, "b"), (3, 9, "c"), (3, 9, "c"), (4, 9, "d"), (9, 6, "e")]
    assert (shop.version("users"), shop.step("users").status, verified(shop)) == (2, "up to date", True)


def test_rows_that_a_merge_has_corrected_are_not_appended_again(shop: Shop) -> None:
    feed(shop.says(MIXED), eu=[(1, 1, "a"), (2, 5, "b")], us=[(2, 2, "B")])
    assert (shop.step("users").counts.inserted, shop.version("users")) == (2, 0)
    assert held(shop) == [(1, 1, "a"), (2, 2, "B")]
    feed(shop, eu=[(1, 1, "a"), (2, 5, "b"), (3, 5, "c")], us=[(2, 2, "B"), (1, 3, "A")])
    second = shop.step("users")
    assert (second.counts.inserted, second.counts.updated) == (1, 1)
    assert held(shop) == [(1, 3, "A"), (2, 2, "B"), (3, 5, "c")]
    assert verified(shop) is True
    shop.says(MIXED.replace("LOAD users FROM eu MODE APPEND;\n", "") + "LOAD users FROM eu MODE APPEND;\n")
    feed(shop, eu=[(1, 1, "a"), (2, 5, "b"), (3, 5, "c"), (4, 6, "d")])
    assert failed(shop).code == "load.key_from_two_sources"


def test_each_source_has_a_watermark_that_can_be_set_and_reset(shop: Shop) -> None:
    feed(shop.says(APPENDS), eu=[(1, 1, "a"), (2, 5, "b")], us=[(3, 9, "c")])
    shop.run()
    feed(shop, eu=[(1, 1, "a"), (2, 5, "b"), (8, 2, "late")])
    assert shop.step("users").status == "unchanged"
    assert [w["source"] for w in asked(shop, "set-watermark", "eu", day(2))["watermarks"]] == ["eu"]
    assert "eu since 2024-01-02" in shop.load().plan()[0].reason
    assert shop.step("users").counts.inserted == 1
    feed(shop, eu=[(1, 1, "a"), (2, 5, "b"), (8, 2, "late"), (9, 1, "later")])
    assert shop.load().run(shop.spark, request=Request(backfill=Backfill(start="2024-01-01"))).ok
    assert (9, 1, "later") in held(shop)
    assert [w["watermark"] for w in asked(shop, "reset-watermark", "us", "--confirm")["watermarks"]] == [None]
    result = shop.step("users")
    assert (result.status, result.rows_read) == ("unchanged", 5)
    record = DeltaLog(str(shop.path("users"))).snapshot().record  # type: ignore[union-attr]
    assert record is not None
    assert (record.reset, sorted(record.progress), sorted(record.inputs)) == (
        (),
        ["shop.eu", "shop.us"],
        ["shop.eu", "shop.us"],
    )


def test_a_second_load_reads_its_source_from_the_beginning_and_may_go_again(shop: Shop) -> None:
    one = f"{TWO}LOAD users FROM eu MODE APPEND;\n"
    feed(shop.says(one), eu=[(1, 8, "a")], us=[(2, 1, "b")])
    shop.run()
    shop.says(APPENDS)
    assert shop.load().plan()[0].reason.endswith("us not read yet: everything is read")
    assert shop.step("users").counts.inserted == 1
    shop.says(one)
    feed(shop, eu=[(1, 8, "a"), (3, 9, "c")])
    assert (shop.step("users").counts.inserted, len(held(shop))) == (1, 3)


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["merge", "append"]))
def test_after_any_history_the_table_equals_a_full_rebuild_and_a_rerun_writes_nothing(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str
) -> None:
    draw = random.Random(seed)
    shop.folder = tmp_path_factory.mktemp(f"history-{kind}-{seed}")
    shop.says(MERGES if kind == "merge" else APPENDS)
    sources: dict[str, list[tuple[int, int, str]]] = {"eu": [(0, 1, "eu")], "us": [(0, 1, "us")]}
    ends = dict.fromkeys(sources, 1)
    feed(shop, **sources)
    shop.run()
    for number in range(3):
        for name in draw.choice([["eu"], ["us"], ["eu", "us"]]):
            fresh = {(draw.randrange(4), at) for at in (draw.randint(ends[name], 8 + 4 * number) for _ in range(3))}
            seen = {(key, at) for key, at, _ in sources[name]}  # one row of a key at a time
            words = ["same"] if kind == "append" else [f"{name}{number}"]
            sources[name] += [(key, at, draw.choice(words)) for key, at in sorted(fresh - seen)]
            ends[name] = max(at for _, at, _ in sources[name])
        feed(shop, **sources)
        shop.run()
        assert held(shop) == expected(kind, sources), (seed, kind, number)
    version = shop.version("users")
    assert shop.step("users").status == "up to date"
    assert (shop.version("users"), verified(shop)) == (version, True)


def expected(kind: str, sources: dict[str, list[tuple[int, int, str]]]) -> list[tuple[int, int, str]]:
    every = [(row, number) for number, rows in enumerate(sources.values()) for row in rows]
    if kind == "append":
        return sorted(row for row, _ in every)
    newest: dict[int, tuple[int, int, tuple[int, int, str]]] = {}
    for row, number in every:
        newest[row[0]] = max(newest.get(row[0], (0, -1, row)), (row[1], number, row))
    return sorted(row for _, _, row in newest.values())


REFUSED = {
    "load.replaces_others": f"{TWO}LOAD users FROM eu;\nLOAD users FROM us;\n",
    "load.same_source": f"{TWO}LOAD users FROM eu;\nLOAD users FROM eu MODE APPEND;\n",
    "load.other_keys": f"{TWO}LOAD users FROM eu MODE MERGE ON id;\nLOAD users FROM us MODE MERGE ON name;\n",
    "load.other_cursor": APPENDS.replace('us.csv" } INCREMENTAL BY at', 'us.csv" }'),
    "load.other_option": APPENDS.replace("eu MODE APPEND", 'eu MODE APPEND OPTIONS { "description": "a" }').replace(
        "us MODE APPEND", 'us MODE APPEND OPTIONS { "description": "b" }'
    ),
    "language.duplicate_name": f"{TWO}LOAD users FROM eu;\nCREATE TABLE users AS SELECT 1 AS id;\n",
}


@pytest.mark.parametrize("code", REFUSED)
def test_loads_whose_result_would_be_in_doubt_are_refused_with_their_place(tmp_path: Path, code: str) -> None:
    (tmp_path / "shop.sql").write_text(REFUSED[code])
    with pytest.raises(TidemillError, match=code) as caught:
        Workspace.load(tmp_path / "shop.sql")
    assert "shop.sql:5" in str(caught.value) or "shop.sql:4" in str(caught.value)


def test_a_record_has_each_source_and_one_without_that_is_read_as_before() -> None:
    low, high = (Cursor(CursorKind.DATE, date(2024, 1, number)) for number in (1, 9))
    each = {
        "shop.eu": InputRecord(("id", "at"), "at", floor=low, highest=high, config_hash="x"),
        "shop.us": InputRecord(),
    }
    record = Record("run-0", "users", 3, "append", "", progress={"shop.eu": high, "shop.us": low}, inputs=each)
    assert Record.from_json(record.to_json()) == record
    alone = record.of_input("shop.eu")
    assert (alone.columns, alone.floor, alone.window) == (("id", "at"), low, {"column": "at"})
    assert (record.reached(BOTH), record.reached(["shop.eu", "other"])) == (low, None)
    old = Record.from_json('{"tidemill":{"run_id":"r","table":"t","sequence":1,"strategy":"append","at":""}}')
    assert old is not None
    assert old.of_input("shop.eu") is old


def test_list_graph_and_compile_name_all_sources_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(USERS + MIXED.replace("users", "both"))

    def told(*args: str) -> Any:
        result = CliRunner().invoke(tidemill, [*args, "--format", "json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    file = str(tmp_path / "shop.sql")
    assert [(each["strategy"], each["reads"]) for each in told("list", file)["declared"]] == [
        ("replace, then append, then merge upsert on user_id", ["users_csv", "new_users", "corrections"]),
        ("append, then merge upsert on id", ["eu", "us"]),
    ]
    edges = [(each["from"], each["to"]) for each in told("graph", file)["edges"]]
    assert [end for _, end in edges] == ["main.users"] * 3 + ["main.both"] * 2
    first, following = told("compile", "users", file)["runs"]
    assert first["reads"] == following["reads"]
    assert (
        "LEFT ANTI JOIN (\nSELECT * FROM corrections\n) AS coming ON held.`user_id` = coming.`user_id`"
        in first["reads"]
    )
    runs = told("compile", "both", file)["runs"]
    assert [(run["run"], run["writes"].split()[0]) for run in runs] == [
        ("first", "CREATE"),
        ("next", "INSERT"),
        ("next", "MERGE"),
    ]


def test_loads_of_one_table_from_two_files_stay_an_error(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(f'{TWO}INCLUDE "more.sql";\nLOAD users FROM eu MODE APPEND;\n')
    (tmp_path / "more.sql").write_text("LOAD users FROM us MODE APPEND;\n")
    with pytest.raises(TidemillError, match=r"language\.duplicate_name") as caught:
        Workspace.load(tmp_path / "shop.sql")
    assert "several LOADs of one table have to be in one file" in str(caught.value)
