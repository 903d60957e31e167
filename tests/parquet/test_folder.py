"""A real folder does what the checker's folder in memory does, and its effects can be done twice."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tidemill.errors import TableError
from tidemill.formats.parquet import folder as folder_module
from tidemill.formats.parquet import protocol
from tidemill.formats.parquet.files import corrupt
from tidemill.formats.parquet.folder import Added, Attempt, DataFile, Entry, Folder
from tidemill.formats.registry import format_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.parquet").write_text("a")
    (tmp_path / "day=2").mkdir()
    (tmp_path / "day=2" / "b.parquet").write_text("b")
    (tmp_path / "_passed_over.parquet").write_text("x")
    (tmp_path / "README.txt").write_text("x")
    yield Folder(str(tmp_path))
    while BEGUN:
        BEGUN.pop().alive.close()


BEGUN: list[Attempt] = []


def rewrite(folder: Folder, path: str, text: str) -> tuple[protocol.State, Attempt, Entry]:
    """A commit that puts another file in the place of one."""
    base = protocol.walk(protocol.opening(folder))
    attempt = protocol.walk(protocol.beginning(folder))
    BEGUN.append(attempt)
    staged = attempt.folder / "0.parquet"
    staged.write_text(text)
    found = staged.stat()
    new = DataFile(f"day=1/{attempt.name}.parquet", found.st_size, found.st_mtime_ns, 1)
    old = base.files[path]
    files = (*(file for file in base.files.values() if file != old), new)
    added = Added("0.parquet", new, path)
    return base, attempt, Entry(base.number + 1, "id", attempt.name, "", "MERGE", None, (added,), (old,), files)


def texts(folder: Folder) -> list[str]:
    state = protocol.walk(protocol.opening(folder))
    return sorted((folder.root / path).read_text() for path in state.files)


def test_a_commit_puts_its_files_in_place_and_leaves_nothing_behind(folder: Folder) -> None:
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")
    protocol.walk(protocol.committing(folder, base, entry))
    attempt.alive.close()
    assert texts(folder) == ["A", "b"]
    state = protocol.walk(protocol.opening(folder))
    assert (state.number, state.entry, state.came, state.left) == (1, entry, [], [])
    assert list(folder.staging.iterdir()) == []


@pytest.mark.parametrize("kill_at", range(12))
def test_a_commit_that_is_killed_at_any_step_is_whole_or_not_there(folder: Folder, kill_at: int) -> None:
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")
    steps = protocol.committing(folder, base, entry)
    taken = [step for _, step in zip(range(kill_at), steps, strict=False)]
    steps.close()
    attempt.alive.close()  # as the kernel does
    committed = folder.newest() is not None
    assert texts(folder) == (["A", "b"] if committed else ["a", "b"]), taken
    protocol.walk(protocol.finishing(folder))
    assert list(folder.staging.iterdir()) == []
    base, attempt, entry = rewrite(folder, "day=2/b.parquet", "B")
    protocol.walk(protocol.committing(folder, base, entry))
    assert texts(folder) == (["A", "B"] if committed else ["B", "a"])


def test_who_planned_on_an_older_commit_conflicts(folder: Folder) -> None:
    first = rewrite(folder, "day=1/a.parquet", "1")
    second = rewrite(folder, "day=1/a.parquet", "2")
    protocol.walk(protocol.committing(folder, first[0], first[2]))
    with pytest.raises(protocol.Moved, match="was changed since it was looked at"):
        protocol.walk(protocol.committing(folder, second[0], second[2]))
    second[1].drop()
    assert texts(folder) == ["1", "b"]


def test_who_planned_before_somebody_else_added_a_file_conflicts(folder: Folder) -> None:
    base, _, entry = rewrite(folder, "day=1/a.parquet", "A")
    (folder.root / "day=2" / "foreign.parquet").write_text("f")
    with pytest.raises(protocol.Moved):
        protocol.walk(protocol.committing(folder, base, entry))


def test_an_entry_is_never_overwritten(folder: Folder) -> None:
    """Even where locks do not work."""
    first = rewrite(folder, "day=1/a.parquet", "1")
    second = rewrite(folder, "day=1/a.parquet", "2")
    folder.create(first[2])
    with pytest.raises(FileExistsError):
        folder.create(second[2])


def test_a_file_that_somebody_else_put_in_the_place_of_one_to_be_removed_stays(folder: Folder) -> None:
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")
    steps = protocol.committing(folder, base, entry)
    while next(steps) != protocol.REMOVE:
        pass
    steps.close()
    attempt.alive.close()
    (folder.root / "day=1" / "a.parquet").write_text("foreign")
    assert texts(folder) == ["A", "b", "foreign"]


def test_a_file_goes_with_its_checksum_and_its_folder(folder: Folder) -> None:
    """Spark writes one beside each file; it would keep the folder of an emptied partition."""
    (folder.root / "day=2" / ".b.parquet.crc").write_text("crc")
    (folder.root / "day=1" / ".other.crc").write_text("crc")
    for file in protocol.walk(protocol.opening(folder)).files.values():
        folder.remove(file)
    assert not (folder.root / "day=2").exists()
    assert [each.name for each in (folder.root / "day=1").iterdir()] == [".other.crc"]


def test_a_file_that_another_tool_rewrote_may_have_a_checksum_of_the_old_one(folder: Folder) -> None:
    file, checksum = folder.root / "day=1" / "a.parquet", folder.root / "day=1" / ".a.parquet.crc"
    assert corrupt(str(folder), str(file), "bad").remedy.startswith("Put it back from a backup")
    checksum.write_text("crc")
    assert f"remove the checksum of the old one, {checksum}. Else put it back" in corrupt("", str(file), "bad").remedy


def test_what_others_did_to_the_files_is_reported(folder: Folder) -> None:
    base, _, entry = rewrite(folder, "day=1/a.parquet", "A")
    protocol.walk(protocol.committing(folder, base, entry))
    (folder.root / "day=2" / "b.parquet").write_text("changed by hand")
    (folder.root / "new.parquet").write_text("n")
    state = protocol.walk(protocol.opening(folder))
    assert [file.path for file in state.came] == ["day=2/b.parquet", "new.parquet"]
    assert [file.path for file in state.left] == ["day=2/b.parquet"]


def test_a_live_writers_files_are_not_cleared(folder: Folder) -> None:
    _, attempt, _ = rewrite(folder, "day=1/a.parquet", "A")
    protocol.walk(protocol.finishing(Folder(str(folder.root))))
    assert (attempt.folder / "0.parquet").exists()
    attempt.alive.close()
    protocol.walk(protocol.finishing(Folder(str(folder.root))))
    assert not attempt.folder.exists()


def test_a_staging_folder_that_its_own_writer_removes_is_cleared_all_the_same(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, attempt, _ = rewrite(folder, "day=1/a.parquet", "A")
    attempt.alive.close()
    removed, unlink = [], os.unlink

    def late(path: str, **more: Any) -> None:
        if not removed:  # the writer itself is a step ahead
            removed.append(path)
            unlink(path, **more)
        unlink(path, **more)

    monkeypatch.setattr(os, "unlink", late)
    assert protocol.walk(protocol.finishing(folder)).cleared == 1
    assert removed
    assert not attempt.folder.exists()
    folder.clear(attempt.name)


def test_nothing_of_a_staging_folder_is_open_when_it_is_cleared(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS keeps a file that is open, under another name, and the folder with it."""
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")
    remove, closed = shutil.rmtree, []

    def seen(place: Path) -> None:
        closed.append(attempt.alive.closed)
        remove(place)

    monkeypatch.setattr(shutil, "rmtree", seen)
    protocol.walk(protocol.committing(folder, base, entry))
    assert closed == [True]


def test_folders_that_a_commit_makes_are_written_to_disk(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    base, _, entry = rewrite(folder, "day=1/a.parquet", "A")
    new = replace(entry.add[0].file, path="day=3/hour=1/new.parquet")
    entry = replace(entry, add=(Added("0.parquet", new),), files=(new,))
    synced: list[Path] = []
    monkeypatch.setattr(folder_module, "sync_folder", synced.append)
    protocol.walk(protocol.committing(folder, base, entry))
    root = folder.root
    assert {root, root / "day=3", root / "day=3/hour=1"} <= set(synced)
    assert synced.index(root / "_tidemill") < synced.index(folder.log)


def test_files_without_an_ending_hold_rows_if_they_begin_like_parquet(folder: Folder) -> None:
    (folder.root / "day=1" / "000000_0").write_bytes(b"PAR1 as Hive names them")
    (folder.root / "day=1" / "Makefile").write_text("not so")
    assert list(folder.files()) == ["day=1/000000_0", "day=1/a.parquet", "day=2/b.parquet"]
    alone = folder.root / "day=1"
    (alone / "a.parquet").unlink()
    assert format_at(str(alone)) == "parquet"


def test_a_path_is_what_spark_makes_of_it(folder: Folder) -> None:
    other = Folder(f"{folder.root}/../{folder.root.name}/")
    assert (other.root, other.files()) == (folder.root, folder.files())


def test_a_disk_that_is_full_at_the_commit_point_leaves_the_dataset_as_it_was(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        protocol.walk(protocol.committing(folder, base, entry))
    attempt.drop()
    assert texts(folder) == ["a", "b"]


def test_an_entry_that_is_made_but_cannot_be_written_through_is_reported_as_a_commit(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")
    sync = folder_module.sync_folder

    def failing(place: Path) -> None:
        if place == folder.log:
            raise OSError(errno.EIO, "Input/output error")
        sync(place)

    with monkeypatch.context() as broken:
        broken.setattr(folder_module, "sync_folder", failing)
        with pytest.raises(TableError, match=r"Commit 1 of .* is made") as caught:
            protocol.walk(protocol.committing(folder, base, entry))
    assert caught.value.code == "dataset.unfinished"
    attempt.alive.close()
    assert texts(folder) == ["A", "b"]


def test_a_commit_whose_files_cannot_be_put_in_place_is_reported_and_finished_later(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, attempt, entry = rewrite(folder, "day=1/a.parquet", "A")

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as broken:
        broken.setattr(Folder, "remove", refused)
        with pytest.raises(TableError) as caught:
            protocol.walk(protocol.committing(folder, base, entry))
    assert caught.value.code == "dataset.unfinished"
    assert f"tidemill recover {folder}" in caught.value.remedy
    attempt.alive.close()
    assert texts(folder) == ["A", "b"]


@pytest.mark.parametrize(("log", "kind"), [("_delta_log", "a Delta table"), ("_tidemill/log", "a Parquet dataset")])
def test_a_dataset_takes_no_files_of_another_table(folder: Folder, log: str, kind: str) -> None:
    """Neither those of a table that lies in its folder, nor as a part of one."""
    inner = Folder(str(folder.root / "day=2"))
    (inner.root / log).mkdir(parents=True)
    with pytest.raises(TableError, match=f"day=2 is {kind}, so its files are not rows of {folder}") as caught:
        protocol.walk(protocol.opening(folder))
    assert caught.value.code == "dataset.holds_another"
    assert protocol.walk(protocol.opening(inner)).files.keys() == {"b.parquet"}
    (folder.root / log).mkdir(parents=True)
    part = Folder(str(folder.root / "day=1"))
    with pytest.raises(TableError, match=f"day=1 lies in {folder}, which is {kind}") as caught:
        protocol.walk(protocol.beginning(part))
    assert caught.value.code == "table.inside_another"
    assert [each.name for each in part.root.iterdir()] == ["a.parquet"]


def test_an_entry_that_is_no_entry_is_an_error(folder: Folder) -> None:
    folder.log.mkdir(parents=True)
    (folder.log / f"{1:020d}.json").write_text("{")
    with pytest.raises(TableError) as caught:
        protocol.walk(protocol.opening(folder))
    assert caught.value.code == "dataset.unreadable_log"
    (folder.log / f"{1:020d}.json").write_text('{"dataset": 2}')
    with pytest.raises(TableError, match="newer Tidemill"):
        protocol.walk(protocol.opening(folder))
