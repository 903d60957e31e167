"""The Spark session a step runs on: the caller's, a Connect server's, or an embedded one that needs only Java.

Importing this imports PySpark. What is under way in a session ends by its own `interruptAll`, which
classic sessions and those of Spark Connect have alike.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import threading
import uuid
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark import SparkContext, StorageLevel
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from tidemill.errors import ArgumentError, EngineError
from tidemill.formats import DEFAULT_FORMAT, FORMATS
from tidemill.model import quoted_text
from tidemill.model.project import LOCAL, SparkSettings
from tidemill.spark import gateway, jvm
from tidemill.spark.jars import archive_options, drivers_at_hand, ensure_jars, find_java, jar_paths
from tidemill.spark.jvm import CHECKPOINTS, LARGE, SMALL, carried_settings, engine_settings, statement_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py4j.java_gateway import JavaGateway
    from pyspark.sql import DataFrame

    from tidemill.formats.traits import FormatTraits, Jar, SparkSupport

try:
    from py4j.protocol import Py4JError
except ImportError:  # a client of Spark Connect alone has no JVM to talk to
    SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_FAILURES = (PySparkException, Py4JError)

# Long work takes 1.6 times as long with the first. Java then has room for 48 MB of code only, which Spark outgrows.
FASTER_TO_START = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")


@dataclass(slots=True)
class _Engine:
    """The one JVM that this process may have, with its session and the folder that goes with it."""

    jvm: jvm.Jvm
    connection: JavaGateway
    folder: Path
    spark: SparkSession
    jars: Sequence[Path]
    settings: Mapping[str, str]
    large: Mapping[str, str]  # what it takes back of its settings for a step that is not small


_USUAL = SparkSettings()
_engine: _Engine | None = None
_starting = threading.Lock()
_of_steps: WeakSet[SparkSession] = WeakSet()
_served: WeakSet[SparkSession] = WeakSet()  # the sessions of servers that we have connected to


def session_for(
    spark: SparkSession | None = None, *, small: bool = False, settings: SparkSettings = _USUAL
) -> SparkSession:
    """The session to work on: the one given, else the active one of this process, else one by the settings.

    A session that is not ours is never changed, only looked at: without the default table format it is an error. That
    holds for an active session too, since a process can have one Spark only.
    """
    if spark is not None and not hasattr(spark, "createDataFrame"):  # those of Spark Connect are of another class
        problem = f"spark is a {type(spark).__name__}, and no SparkSession."
        raise ArgumentError(
            "engine.no_session", problem, "Give a session, or leave it out: then one is found or started."
        )
    found = spark or (None if _engine else _active_session())
    if found is None and settings.remote and _engine is None:
        found = _connected(settings, settings.remote)
    if found is None:
        return embedded(small=small, settings=settings)
    format_ = FORMATS[DEFAULT_FORMAT]
    if not _has(found, format_.spark):
        raise _no_format(format_, f"The Spark session has no {format_.spark.title}.")
    return found


def step_session(spark: SparkSession) -> SparkSession:
    """A session for one step, on the same engine, with the settings that decide what a query gives.

    Settings of one commit are session-wide: set on this one, they touch nobody else's. Temporary views and functions
    of the given session are not visible in it.
    """
    if not hasattr(spark, "newSession"):  # Spark Connect has clones instead, which have all settings
        own: SparkSession = spark.cloneSession()  # type: ignore[attr-defined] # the type is that of classic ones
    else:
        own = spark.newSession()
        for name, value in deciding_settings(spark).items():
            own.conf.set(name, value)
    _of_steps.add(own)
    return own


@contextlib.contextmanager
def statements(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session of our own for statements, with these settings and those of all; they are taken back at the end.

    It is the given one where that is a step's own; a session of the caller's is left as it is.
    """
    own = spark if spark in _of_steps else step_session(spark)
    wanted = {**statement_settings(), **settings}
    before = {name: own.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            own.conf.set(name, value)
        yield own
    finally:
        for name, found in before.items():
            own.conf.unset(name) if found is None else own.conf.set(name, found)


@contextlib.contextmanager
def shared_view(rows: DataFrame) -> Iterator[str]:
    """The rows under a name that all sessions of their Spark know: a frame itself belongs to one of them."""
    spark, name = rows.sparkSession, f"tidemill_{uuid.uuid4().hex}"
    rows.createGlobalTempView(name)
    try:
        yield f"{spark.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}"
    finally:
        spark.catalog.dropGlobalTempView(name)


def deciding_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that decide what a query gives."""
    is_classic = hasattr(spark, "newSession")
    return carried_settings(_settings_of(spark) if is_classic else spark.conf.getAll)


def _settings_of(spark: SparkSession) -> dict[str, str]:
    """What `conf.getAll` gives, by one answer of the JVM: each of its some fifty settings would be two."""
    pairs = spark._jsparkSession.conf().getAll().mkString("\0")  # noqa: SLF001  a classic session
    return dict(pair.split(" -> ", 1) for pair in pairs.split("\0") if pair)


def paced_session(spark: SparkSession) -> SparkSession:
    """A session whose `pace` can be set; the given one, where it is set to small work whatever comes."""
    is_small = all(spark.conf.get(name, LARGE[name]) == value for name, value in SMALL.items())
    stays_so = not (_engine and _engine.large)
    return spark if is_small and stays_so else step_session(spark)


def pace(spark: SparkSession, *, small: bool) -> None:
    """Sets a step's own session to small work, or, on an engine for small work, to large; other sessions stay."""
    if spark in _of_steps:
        for name, value in (SMALL if small else _engine.large if _engine else {}).items():
            spark.conf.set(name, value)


def version_of(spark: SparkSession, support: SparkSupport) -> tuple[int, ...]:
    """The version of a table format that the session has; the lowest of all where it does not tell."""
    if _engine is not None:  # the one Spark of this process
        return _numbers(support.version)
    found = spark.sql(support.version_query).first()
    return _numbers(found[0] or "") if found else ()


def started_with(spark: SparkSession, setting: str) -> str | None:
    """The value of a setting that is read from Spark as it was started; what a session sets later does not count.

    A Spark Connect server does not report that: there, it is what the session has.
    """
    if not hasattr(spark, "newSession"):
        return spark.conf.get(setting, None)
    return spark.sparkContext.getConf().get(setting)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def embedded(*, small: bool = False, settings: SparkSettings = _USUAL) -> SparkSession:
    """The session of this process's own JVM: started at the first call, the same one afterwards.

    `small` makes the start quicker and long work slower. Other settings than those it was started with are an error.
    It ends with the process.
    """
    with _starting:
        if _engine is not None and _is_running(_engine):
            _check_same(settings, _engine)
            return _engine.spark
        stop(wait=True)  # what is left of an engine whose session was stopped or whose JVM has died
        java, jars = find_java(), ensure_jars()
        # Drivers come last: the archive is made without them, and its class path must be the beginning of this one.
        return _start([*jars, *drivers_at_hand()], archive_options(java, jars), settings, small=small)


def start(options: Sequence[str]) -> SparkSession:
    """The embedded session for small work with JVM options of one's own and without the start-up archive."""
    with _starting:
        return _start(ensure_jars(), options, _USUAL, small=True)


def stop(*, wait: bool = False) -> None:
    """Ends the embedded session and its JVM, if there is one."""
    global _engine
    if _engine is None:
        return
    ended, _engine = _engine, None
    jvm.set_current(None)
    with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):  # a dead JVM is stopped
        ended.spark.stop()
    gateway.detach(ended.connection)
    ended.jvm.close()
    shutil.rmtree(ended.folder, ignore_errors=True)
    if wait:
        ended.jvm.process.wait()


def was_started_with(jar: Path) -> bool:
    """Whether the embedded engine has had the jar from its start."""
    return _engine is not None and jar in _engine.jars


def _connected(settings: SparkSettings, remote: str) -> SparkSession:
    with gateway.handler_kept(_interrupt):
        found = gateway.connect(settings, remote)
    _served.add(found)
    return found


def _start(jars: Sequence[Path], options: Sequence[str], asked: SparkSettings, *, small: bool) -> SparkSession:
    global _engine  # noqa: PLW0603 - a process has one JVM
    if gateway.has_jvm():
        problem = "This process has started another Spark already, and it can have one only."
        raise _no_format(FORMATS[DEFAULT_FORMAT], problem)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = Path(tempfile.mkdtemp(prefix="tidemill-"))
    try:
        settings = engine_settings(asked.conf, folder, jars, asked.master, small=small)
        _check_formats(settings, asked)
        memory = jvm.driver_memory(settings.get("spark.driver.memory"))
        own = [f"-Xmx{memory}", f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"]
        own += FASTER_TO_START if small else ()
        started = jvm.start(find_java(), jars, [*own, f"-Dderby.system.home={folder}", *options], settings)
        connection = gateway.attach(started)
        with gateway.handler_kept(_interrupt, lambda: gateway.leave_call(connection)):
            # The settings have reached the JVM with its start; here they are only picked up.
            spark = SparkSession(SparkContext(gateway=connection))
        _engine = _Engine(started, connection, folder, spark, jars, settings, _large(asked) if small else {})
        jvm.set_current(started)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    atexit.register(stop)
    return spark


def _large(asked: SparkSettings) -> dict[str, str]:
    return {name: value for name, value in LARGE.items() if name not in asked.conf}


def _check_same(asked: SparkSettings, engine: _Engine) -> None:
    would = engine_settings(asked.conf, engine.folder, engine.jars, asked.master)
    names = asked.conf.keys() | ({"spark.master"} if asked.at != LOCAL else set())
    other = sorted(name for name in names if would[name] != engine.settings.get(name))
    if other or asked.remote:
        raise EngineError(
            "engine.other_settings",
            f"This process has started a Spark with another {', '.join(other) or 'address'}, and it can have one only.",
            "Run this project in a process of its own, or give a session that has these settings as spark=.",
            origin=asked.origin,
        )


def _check_formats(settings: Mapping[str, str], asked: SparkSettings) -> None:
    for format_ in FORMATS.values():
        for name, wanted in format_.spark.settings.items():
            if wanted not in settings[name]:
                raise EngineError(
                    f"engine.no_{format_.name}",
                    f"[spark.conf] sets {name}, by which Spark finds {format_.spark.title}.",
                    f"Leave it out: it must be {wanted}.",
                    origin=asked.origin,
                )


def _interrupt() -> None:
    """Ends what is under way in sessions of ours: the one of this process, those of servers, those of steps."""
    for session in [*([_engine.spark] if _engine else []), *_served, *_of_steps]:
        session.interruptAll()


def _is_running(engine: _Engine) -> bool:
    """Whether nobody has stopped the session of the engine or killed its JVM."""
    return not jvm.has_died() and engine.spark.sparkContext._jsc is not None  # noqa: SLF001 - PySpark says it nowhere else


def _active_session() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _has(spark: SparkSession, support: SparkSupport) -> bool:
    return all(wanted in (spark.conf.get(name, "") or "") for name, wanted in support.settings.items())


def _no_format(format_: FormatTraits, problem: str) -> EngineError:
    lines = " and ".join(f'.config("{name}", "{value}")' for name, value in format_.spark.settings.items())
    return EngineError(
        f"engine.no_{format_.name}",
        problem,
        f"Build the session with {lines} and {format_.spark.title}'s jars, and give it as spark=; or leave Spark to "
        "Tidemill in a process that has not started one.",
    )


def ensure_driver(spark: SparkSession, jar: Jar) -> None:
    """Fetches a driver at its first use, and adds it to the embedded engine if that was started without it.

    A session that is not ours is not changed: it has the driver, or its error says what is missing.
    """
    if not jvm.is_embedded():
        return
    path = jar_paths([jar])[0]
    if not was_started_with(path):
        ensure_jars([jar])
        spark.sql(f"ADD JAR {quoted_text(str(path))}")


def settle(rows: DataFrame) -> DataFrame:
    """Computes the rows and keeps them on disk beside the executors, so that memory does not grow with them.

    A cluster that loses executors keeps each twice, where its setting says so.
    """
    return rows.localCheckpoint(eager=True, storageLevel=_level(rows.sparkSession.conf.get(CHECKPOINTS, None)))


def _level(name: str | None) -> StorageLevel:
    found = getattr(StorageLevel, (name or "DISK_ONLY").upper(), None)
    if not isinstance(found, StorageLevel):
        raise EngineError(
            "engine.storage_level",
            f"{CHECKPOINTS} is {name}, which is no storage level of Spark's.",
            "Leave it out, or use DISK_ONLY, DISK_ONLY_2 or DISK_ONLY_3.",
        )
    return found
