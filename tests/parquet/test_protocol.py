"""Every order in which two writers and a reader can take the protocol's steps, with a kill at every one of them.

The steps are those of the code that runs (`tidemill.formats.parquet.protocol`), on a folder in memory. The dataset
has two files; one writer rewrites both, the other rewrites one and brings a third.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from parquet.disk import Disk, Lock, MemoryFolder, data_file, merged

from tidemill.formats.parquet import protocol
from tidemill.formats.parquet.folder import Added, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataset.disk import Rows

STAGE, READ = "stage a file", "read a file"
CHANGES = {"v": {"a": 1, "b": 1}, "w": {"a": 2, "c": 2}}
BEFORE = {"a": 0, "b": 0}
READER = "r"


def start() -> Disk:
    return Disk(files={"a0": (("a", 0),), "b0": (("b", 0),)})


def writer(folder: MemoryFolder, change: dict[str, int]) -> Iterator[str]:
    """An upsert as the store does it: plan, stage, commit; again when another was first."""
    while True:
        folder.seen.clear()
        base = yield from protocol.opening(folder)
        attempt = yield from protocol.beginning(folder)
        touched: list[tuple[str, Rows]] = []
        for path in base.files:
            yield READ
            if path not in folder.disk.files:
                break
            held = folder.disk.files[path]
            folder.seen.append(held)
            if any(key in change for key, _ in held):
                touched.append((path, tuple((key, change.get(key, value)) for key, value in held)))
        else:
            yield from _stage_and_commit(folder, base, attempt, touched, change)
            if attempt.name in {entry.attempt for entry in folder.disk.log.values()}:
                return
        attempt.drop()


def _stage_and_commit(folder, base, attempt, touched: Sequence[tuple[str, Rows]], change) -> Iterator[str]:
    known = {key for path in base.files for key in path[0]}
    new = tuple((key, value) for key, value in change.items() if key not in known)
    outputs = [(rows, path) for path, rows in touched] + ([(new, None)] if new else [])
    added = []
    for number, (rows, old) in enumerate(outputs):
        yield STAGE
        folder.disk.staged[attempt.name][str(number)] = rows
        added.append(Added(str(number), data_file(f"{rows[0][0]}-{attempt.name}"), old))
    gone = [data_file(path) for path, _ in touched]
    kept = [file for file in base.files.values() if file not in gone]
    files = (*kept, *(each.file for each in added))
    entry = Entry(base.number + 1, "id", attempt.name, "", "MERGE", None, tuple(added), tuple(gone), tuple(files))
    with contextlib.suppress(protocol.Moved):
        yield from protocol.committing(folder, base, entry)


def reader(folder: MemoryFolder, found: list[object]) -> Iterator[str]:
    """Opens, and then reads one file after the other, as a lazy frame does; a file that has gone is an error."""
    base = yield from protocol.opening(folder)
    rows: list[tuple[str, int]] = []
    for path in base.files:
        yield READ
        if path not in folder.disk.files:
            found.append("read again")
            return
        folder.seen.append(path)
        rows += folder.disk.files[path]
    found.append((base.number, tuple(sorted(rows))))


@dataclass
class Actor:
    """One process: where it stands, and whether it is alive."""

    name: str
    folder: MemoryFolder
    steps: Iterator[str]
    at: str | None = "start"
    found: list[object] = field(default_factory=list)
    dead: bool = False

    @property
    def can_go(self) -> bool:
        return self.at is not None and (self.at != protocol.LOCK or self.folder.lock.is_free)

    def go(self) -> None:
        self.at = next(self.steps, None)
        self.folder.seen.append(self.at)

    def kill(self) -> None:
        self.folder.disk.die(self.name)
        self.steps.close()
        self.at, self.dead = None, True

    def key(self) -> object:
        local = () if self.at is None else tuple(self.folder.seen)
        return (self.at, self.dead, local, tuple(self.found))


class World:
    """A disk and those who work on it, brought to where a schedule leads."""

    def __init__(self, names: Sequence[str]) -> None:
        self.disk = start()
        self.actors = {name: self._actor(name) for name in names}
        self.least = 0  # the number of the last commit when the reader began

    def _actor(self, name: str) -> Actor:
        folder, found = MemoryFolder(self.disk, name), []
        steps = reader(folder, found) if name == READER else writer(folder, CHANGES[name])
        return Actor(name, folder, steps, found=found)

    def take(self, move: tuple[str, str]) -> None:
        name, what = move
        actor = self.actors[name]
        if name == READER and actor.at == "start":
            self.least = max(self.disk.log, default=0)
        actor.kill() if what == "kill" else actor.go()

    def moves(self, kills: int) -> list[tuple[str, str]]:
        going = [(name, "go") for name, actor in self.actors.items() if actor.can_go]
        dead = sum(actor.dead for actor in self.actors.values())
        living = [name for name, actor in self.actors.items() if actor.at not in (None, "start")]
        return going + ([(name, "kill") for name in living] if dead < kills else [])

    def key(self) -> object:
        return (self.disk.key(), self.least, tuple(actor.key() for actor in self.actors.values()))


def replayed(names: Sequence[str], schedule: Sequence[tuple[str, str]]) -> World:
    world = World(names)
    for move in schedule:
        world.take(move)
    return world


def expected(disk: Disk) -> dict[str, int]:
    """What the log says: the changes of its commits, one after the other."""
    rows = BEFORE
    for number in sorted(disk.log):
        rows = merged(rows, CHANGES[disk.log[number].attempt[0]])
    return rows


def check(disk: Disk) -> None:
    """What holds in every state, whoever lives."""
    listed = [key for rows in disk.files.values() for key, _ in rows]
    assert {"a", "b"} <= set(listed), "somebody who only lists the folder misses a row"
    after = disk.after_all_died()
    assert rows_of(after) == sorted(expected(disk).items()), "rows are lost, doubled or torn"
    assert not after.staged, "something is left behind"


def rows_of(disk: Disk) -> list[tuple[str, int]]:
    """What the next one who comes finds; a writer, so that it also clears what others have left."""
    folder = MemoryFolder(disk, "next")
    protocol.walk(protocol.beginning(folder)).drop()
    state = protocol.walk(protocol.opening(folder))
    assert set(state.files) == set(disk.files)
    return sorted(row for path in state.files for row in disk.files[path])


def check_ended(world: World) -> None:
    done = {entry.attempt[0] for entry in world.disk.log.values()}
    for name, actor in world.actors.items():
        if name != READER and actor.at is None and not actor.dead:
            assert name in done, f"{name} said ok, and is not in the log"
    for read in world.actors[READER].found if READER in world.actors else ():
        if read == "read again":
            assert world.disk.log, "a file has gone, though nobody committed"
        else:
            number, rows = read
            assert number >= world.least, "an older commit was read than was there"
            entries = {n: entry for n, entry in world.disk.log.items() if n <= number}
            assert rows == tuple(sorted(expected(Disk(log=entries)).items())), "rows of two commits in one read"


def explore(names: Sequence[str], kills: int) -> tuple[int, set[str]]:
    """Walks every state that any schedule leads to, once; how many there are, and the steps that were taken."""
    seen, disks, steps = set(), set(), set()
    waiting: list[list[tuple[str, str]]] = [[]]
    while waiting:
        schedule = waiting.pop()
        world = replayed(names, schedule)
        while (key := world.key()) not in seen:
            seen.add(key)
            steps |= {actor.at for actor in world.actors.values() if actor.at}
            try:
                if world.disk.key() not in disks:
                    check(world.disk)
                check_ended(world)
            except AssertionError as failure:
                pytest.fail(f"{failure}, after {' '.join(f'{name}:{what}' for name, what in schedule)}")
            disks.add(world.disk.key())
            moves = world.moves(kills)
            if not moves:
                assert all(actor.at is None for actor in world.actors.values()), f"all wait: {schedule}"
                break
            first, *others = moves
            waiting += [[*schedule, move] for move in others]
            schedule = [*schedule, first]
            world.take(first)  # the world goes on from here: only the other ways are played from their start
    return len(seen), steps


ALL_STEPS = {
    protocol.LOOK,
    protocol.LIST,
    protocol.LOOK_AGAIN,
    protocol.LOCK,
    protocol.BEGIN,
    protocol.COMMIT,
    protocol.MOVE_IN,
    protocol.REMOVE,
    protocol.SYNC,
    protocol.CLEAR,
    protocol.CLEAR_DEAD,
}


@pytest.mark.parametrize(
    ("names", "kills"),
    [("vr", 2), ("vw", 2), ("vwr", 0), pytest.param("vwr", 3, marks=pytest.mark.slow)],
    ids=["a writer and a reader, all killed", "two writers, all killed", "all three", "all three, all killed"],
)
def test_no_order_of_steps_and_no_kill_loses_doubles_or_tears_a_row(names: str, kills: int) -> None:
    states, steps = explore(names, kills)
    assert states > 500
    assert steps >= (ALL_STEPS if kills and "w" in names else ALL_STEPS - {protocol.CLEAR_DEAD})


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("is_pending", "rows are lost, doubled or torn"),
        ("lock", "rows are lost, doubled or torn"),
        ("look again", "rows of two commits in one read"),
        ("order", "somebody who only lists the folder misses a row"),
    ],
)
def test_the_checker_finds_what_a_broken_protocol_does(
    monkeypatch: pytest.MonkeyPatch, broken: str, problem: str
) -> None:
    """Each part of the protocol is needed: without it, the checker tells the schedule that tears the dataset."""
    match broken:
        case "is_pending":  # nobody rolls an interrupted commit forward
            monkeypatch.setattr(MemoryFolder, "is_pending", lambda *_: False)
        case "lock":  # all writers hold it at once, and entries are overwritten
            monkeypatch.setattr(Lock, "is_free", True)
            monkeypatch.setattr(MemoryFolder, "create", lambda self, entry: self.disk.log.update({entry.number: entry}))
        case "look again":
            monkeypatch.setattr(protocol, "opening", _careless_opening)
        case "order":
            monkeypatch.setattr(protocol, "_moves", _removals_first)
    with pytest.raises(pytest.fail.Exception, match=problem):
        explore("vw" if broken == "lock" else "vr", 1)


def _careless_opening(folder: MemoryFolder) -> protocol.Steps[protocol.State]:
    yield protocol.LOOK
    number = folder.newest()
    yield protocol.LIST
    return protocol.State(number or 0, folder.disk.log.get(number or 0), folder.files())


def _removals_first(folder: MemoryFolder, entry: Entry) -> protocol.Steps[None]:
    for file in entry.remove:
        yield protocol.REMOVE
        folder.remove(file)
    for added in entry.add:
        yield protocol.MOVE_IN
        folder.move_in(entry, added.staged, added.file.path)
    folder.clear(entry.attempt)
