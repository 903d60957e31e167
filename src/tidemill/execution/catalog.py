"""What the names in queries and functions stand for: tables by their paths, or names in Spark's catalog.

A name is given for the length of a run, counted, and taken away by the last run that uses it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidemill.errors import ArgumentError
from tidemill.execution.pins import Pins, TablePlace
from tidemill.execution.query_source import QuerySource
from tidemill.execution.views import drop_view, make_view
from tidemill.formats import DEFAULT_FORMAT, Capability, can
from tidemill.formats.registry import format_at, log_at, store_at
from tidemill.model import Naming, quote, quoted_name
from tidemill.model.query import by_name
from tidemill.sources import Reading, sum_of_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidemill.execution.outside import Outside
    from tidemill.execution.pins import Place
    from tidemill.formats.base import KeyRange
    from tidemill.model.query import Bind, View
    from tidemill.model.table import Table

    Removing = Callable[[], None]

logger = logging.getLogger("tidemill")


_AT_WORK: ContextVar[tuple[NameUser, ...]] = ContextVar("runs whose steps this thread is in", default=())


@dataclass(frozen=True, eq=False)
class NameUser:
    """A run that uses names. `around` are the runs whose functions it was started from."""

    around: tuple[NameUser, ...] = field(default_factory=_AT_WORK.get)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """A run that is started meanwhile, by the code of a user, is inside of this one."""
        before = _AT_WORK.set((*self.around, self))
        try:
            yield
        finally:
            _AT_WORK.reset(before)


@dataclass
class _Name:
    """What it stands for, and in which runs; `remove` takes it out of the catalog, where it was put there by us."""

    meaning: str
    users: set[NameUser] = field(default_factory=set)
    given: bool = False
    remove: Removing | None = None


class Names:
    """Names and what they stand for. A run reserves all that it may need at once: no two can wait for each other."""

    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        self._changed = threading.Condition()

    def reserve(self, wanted: Mapping[str, str], user: NameUser) -> None:
        """Waits until each of these names stands for nothing else, and then counts this run among its users.

        A run around this one would wait for it in turn, so its names are an error.
        """
        with self._changed:
            while taken := self._taken(wanted):
                self._refuse_waiting(taken, user)
                told = ", ".join(taken)
                logger.info("waiting for another run of this process, which has other tables called %s", told)
                self._changed.wait(timeout=1)  # in pieces, so that an interrupt is heard
            for key, meaning in wanted.items():
                self._names.setdefault(key, _Name(meaning)).users.add(user)

    def give(self, key: str, make: Callable[[], Removing | None]) -> None:
        """Gives a reserved name, unless another run has done so. `make` returns how it is taken away again."""
        with self._changed:
            name = self._names[key]
            if not name.given:
                name.remove = make()
                name.given = True

    def release(self, keys: Iterable[str], user: NameUser) -> None:
        """Counts this run no longer among the users of these names; those that have none left are taken away."""
        with self._changed:
            for key in keys:
                name = self._names[key]
                name.users.discard(user)
                if not name.users:
                    del self._names[key]
                    with contextlib.suppress(Exception):  # Spark may have ended, and its catalog with it
                        (name.remove or _nothing)()
            self._changed.notify_all()

    def _taken(self, wanted: Mapping[str, str]) -> list[str]:
        return [key for key, meaning in wanted.items() if key in self._names and self._names[key].meaning != meaning]

    def _refuse_waiting(self, taken: Iterable[str], user: NameUser) -> None:
        held = sorted(key for key in taken if not self._names[key].users.isdisjoint(user.around))
        if held:
            raise ArgumentError(
                "table.name_in_use",
                f"The run whose function started this one has other tables called {', '.join(held)}: "
                "each would wait for the other.",
                "Run one project after the other, or use another schema in one of them.",
            )


def _nothing() -> None:
    pass


NAMES = Names()
NO_PATHS: Mapping[str, str] = MappingProxyType({})


@dataclass
class Catalog:
    """Finds tables for one run. `path_of` tells where a table of ours is, None for others'.

    `outside` has the data that others keep, `views` the declared views, by name in lower case; a name there is not
    looked for anywhere else. `tables` are those that are declared, whether a run is about them or not. `bind` puts the
    paths of tables into the text of a query. `user` is the run, where it and others use the same names, and `pins` are
    the versions at which it reads tables that views follow.
    """

    path_of: Callable[[str], str | None]
    naming: Naming = field(default_factory=Naming)
    outside: Mapping[str, Outside] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    bind: Bind = by_name
    user: NameUser = field(default_factory=NameUser)
    pins: Pins = field(default_factory=Pins)
    _reserved: set[str] = field(default_factory=set)
    _schemas: set[str] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def query(
        self,
        spark: SparkSession,
        text: str,
        inputs: Iterable[str],
        named: Iterable[str] = (),
        at: Mapping[str, str] = NO_PATHS,
    ) -> DataFrame:
        """The rows of a query over these inputs. Those that are `named` have their names in its session, too.

        `at` are paths, by names, in the place of those at which tables are.
        """
        session, bound = self.bound(spark, text, inputs, named, at)
        return session.sql(bound)

    def bound(
        self,
        spark: SparkSession,
        text: str,
        inputs: Iterable[str],
        named: Iterable[str] = (),
        at: Mapping[str, str] = NO_PATHS,
    ) -> tuple[SparkSession, str]:
        """The query with the paths of tables in it, and a session that knows all its other names."""
        found = self.bind(text, lambda name: at.get(self.naming.key(name)) or self.table_path(name))
        rest = [name for name in inputs if self.naming.key(name) not in found.paths]
        return self.session(spark, [*rest, *named]), found.text

    def frames(self, spark: SparkSession, names: Sequence[str]) -> list[DataFrame]:
        """The rows of tables and views, all in one session for one step."""
        session = self.session(spark, [name for name in names if self.table_path(name) is None])
        return [self.frame(session, name) for name in names]

    def frame(self, session: SparkSession, name: str) -> DataFrame:
        """The rows of a table or view in this session, where it has its name unless it can be read by its path."""
        path = self.table_path(name)
        if path is None:
            return session.table(quoted_name(self.naming.full(name)))
        return session.read.format(format_at(path) or DEFAULT_FORMAT).load(path)

    def view(self, spark: SparkSession, view: View) -> DataFrame:
        """The rows of the query of a view, whether it has its name or not."""
        return QuerySource(view.name, view.query, view.inputs, self, datetime.now(UTC)).read(Reading(spark))

    def session(self, spark: SparkSession, names: Iterable[str]) -> SparkSession:
        """A session in which these tables and views have their names, and names without a schema are in ours.

        The names are those of the run: all that it may need are reserved when it needs the first. Another run of this
        process whose tables have the same names waits until this one is closed.
        """
        from tidemill.spark.session import step_session  # noqa: PLC0415  plan imports this module, and no PySpark

        own = step_session(spark)
        wanted = list(dict.fromkeys(self._with_what_views_read(names)))
        self._reserve(wanted)
        self._make_schema(own, self.naming.schema)
        own.sql(f"USE {quote(self.naming.schema)}")
        for name in wanted:
            self._give(own, name)
        return own

    def version(self, name: str) -> str | None:
        """Differs whenever the rows of a table or view may; None where that cannot be known. Asked without Spark."""
        key = self.naming.key(name)
        if key in self.views:
            return self._version_of(self.views[key])
        outside = self.outside.get(key)
        return outside.version() if outside else _version_at(self.path_of(name))

    def place(self, name: str) -> Place | None:
        """Where something with versions is; None for all else."""
        key = self.naming.key(name)
        if key in self.views:
            return None
        if key in self.outside:
            return self.outside[key].place
        path = self.path_of(key)
        return TablePlace(path) if path else None

    def release(self, name: str, path: str) -> None:
        """What stands at a path, and for a name, has moved: the next look sees it as it is."""
        self.pins.release(path)
        if outside := self.outside.get(self.naming.key(name)):
            outside.renew()

    def table_path(self, name: str) -> str | None:
        """Where a table is that queries can read by its path; None for all else."""
        key = self.naming.key(name)
        if key in self.views:
            return None
        if key in self.outside:
            return self.outside[key].table_path
        path = self.path_of(key)
        kind = format_at(path) if path is not None else None
        return path if kind is not None and can(kind, Capability.READ_BY_PATH) else None

    def size(self, name: str, ranges: Sequence[KeyRange] = ()) -> int | None:
        """The bytes of a table's files that may hold rows within all ranges, or of all that a view reads.

        None where that is not known without Spark.
        """
        key = self.naming.key(name)
        if key in self.views:
            return None if ranges else sum_of_known(self.size(each) for each in self.views[key].inputs)
        path = None if key in self.outside else self.path_of(name)
        return log_at(path).reach(ranges).size if path else None

    def close(self) -> None:
        """The run is over: its names, and what is kept of outside data, are taken away."""
        for outside in self.outside.values():
            outside.drop()
        with self._turn:
            NAMES.release(self._reserved, self.user)
            self._reserved.clear()

    def _version_of(self, view: View) -> str | None:
        """Of a view's query, and of all that it reads."""
        versions = {name: self.version(name) for name in view.inputs}
        if view.query.clock or None in versions.values():
            return None
        return f"{view.sql_hash}@{hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:16]}"

    def _with_what_views_read(self, names: Iterable[str]) -> Iterator[str]:
        """What has to have a name, each after what it reads by name."""
        for name in names:
            view = self.views.get(self.naming.key(name))
            if view is not None:
                found = self.bind(view.query.text, self.table_path)
                unbound = (each for each in view.inputs if each not in found.paths)
                yield from self._with_what_views_read(unbound)
            yield self.naming.full(name)

    # names for the length of the run

    def _reserve(self, wanted: Iterable[str]) -> None:
        """All at once, so that no two runs wait for each other; nothing where no name of ours is wanted."""
        with self._turn:
            needed = {name.lower() for name in wanted} - self._reserved
            if not any(self._meaning(key) for key in needed):
                return
            nodes: list[Table | View] = [*self.tables.values(), *self.views.values()]
            inputs = (name for node in nodes for name in node.inputs)
            known = {*needed, *self.tables, *self.views, *self.outside, *inputs} - self._reserved
            meant = {key: meaning for key in known if (meaning := self._meaning(key))}
            NAMES.reserve(meant, self.user)
            self._reserved |= set(meant)

    def _meaning(self, key: str) -> str | None:
        """What a name stands for in this run: a place, or something of its own; None for a name that is not ours."""
        if key in self.views:
            return f"the view {self.views[key].sql_hash} at {self.views[key].path}"
        if key in self.outside:
            return f"outside data of the run {id(self)}"  # its files are not looked at: nothing may ask for them
        return self.tables[key].path if key in self.tables else self.path_of(key)

    def _give(self, spark: SparkSession, name: str) -> None:
        """Gives the name to what it stands for; nothing for a name that is not ours, or of what is not there yet."""
        key = name.lower()
        view, outside = self.views.get(key), self.outside.get(key)
        if view is not None:
            self._make_schema(spark, name.partition(".")[0])
            NAMES.give(key, lambda: self._made(spark, view))
        elif outside is not None and not outside.table_path:
            self._make_schema(spark, name.partition(".")[0])
            outside.register(spark, quoted_name(name))
        elif path := outside.table_path if outside else self.path_of(name):
            self._make_schema(spark, name.partition(".")[0])
            NAMES.give(key, lambda: _registered(spark, name, path))
            store_at(path).refresh(spark, quoted_name(name))

    def _made(self, spark: SparkSession, view: View) -> Removing:
        make_view(spark, view, self.bind(view.query.text, self.table_path).text)
        return lambda: drop_view(spark, view.name)

    def _make_schema(self, spark: SparkSession, schema: str) -> None:
        if schema.lower() not in self._schemas:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
            self._schemas.add(schema.lower())


def _registered(spark: SparkSession, name: str, path: str) -> Removing | None:
    """Gives the name to the table at a path, unless it is its name already: then it is not ours to take away."""
    quoted = quoted_name(name)
    drop_view(spark, name)  # of a run that was killed
    if spark.catalog.tableExists(quoted):
        if store_at(path).is_named(spark, quoted):
            return None
        raise _taken(name, path)
    store_at(path).register(spark, quoted)
    return lambda: _drop(spark, quoted)


def _drop(spark: SparkSession, quoted: str) -> None:
    """It is external: its files stay."""
    spark.sql(f"DROP TABLE IF EXISTS {quoted}")


def _taken(name: str, path: str) -> ArgumentError:
    return ArgumentError(
        "table.name_taken",
        f"The Spark session has a table or view {name} of its own, which is not the one at {path}.",
        "Give one of them another name, or use a session that does not know this one.",
    )


def _version_at(path: str | None) -> str | None:
    snapshot = log_at(path).snapshot() if path else None
    return snapshot.content if snapshot else None
