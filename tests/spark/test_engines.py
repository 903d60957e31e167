"""An engine from its start to its end, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

A_WHOLE_LIFE = """
import json, sys, time
from tidemill.spark import jvm, session
spark = session.embedded(small=True)
spark.sql("CREATE DATABASE shop")
spark.range(3).write.format("delta").save(sys.argv[1])
try:
    spark.sql("SELECT nothing FROM nowhere")
except Exception:
    pass
seen = {"rows": spark.read.format("delta").load(sys.argv[1]).count(), "log": str(jvm.log_file())}
spark.stop()
again = session.embedded(small=True)
seen["again"] = again.range(5).count()
session._engine.jvm.process.kill()
session._engine.jvm.process.wait()
seen["died"] = jvm.has_died()
seen["after"] = session.session_for(None, small=True).range(7).count()
print(json.dumps(seen))
"""

WITH_SETTINGS = """
import json, sys
from tidemill.model.project import SparkSettings
from tidemill.spark import session
from tidemill.errors import EngineError
mine = SparkSettings(sys.argv[2], conf={"spark.sql.shuffle.partitions": "3"})
spark = session.session_for(small=True, settings=mine)
spark.range(30).repartition(3).write.format("delta").save(sys.argv[1])
seen = {"rows": spark.read.format("delta").load(sys.argv[1]).selectExpr("sum(id)").first()[0]}
seen["master"], seen["partitions"] = spark.conf.get("spark.master"), spark.conf.get("spark.sql.shuffle.partitions")
seen["same"] = session.session_for(settings=mine) is session.session_for() is spark
own = session.step_session(spark)
seen["code"] = [own.conf.get("spark.sql.codegen.factoryMode")]
session.pace(own, small=False)
seen["code"].append(own.conf.get("spark.sql.codegen.factoryMode"))
try:
    session.session_for(settings=SparkSettings(conf={"spark.sql.shuffle.partitions": "4"}))
except EngineError as error:
    seen["other"] = error.problem
try:
    session.session_for(settings=SparkSettings(remote="sc://nowhere"))
except EngineError as error:
    seen["remote"] = error.problem
print(json.dumps(seen))
"""

A_LONG_JOB = """
import sys
from tidemill.spark import session
spark = session.embedded(small=True)
print(session._engine.jvm.process.pid, flush=True)
try:
    spark.range(1 << 50).selectExpr("max(hash(id))").collect()
except KeyboardInterrupt:
    sys.exit(f"stopped, and {spark.range(3).count()} rows counted")
"""


def test_a_session_says_nothing_on_the_terminal_and_leaves_nothing_in_the_folder(tmp_path: Path):
    folder = tmp_path / "cwd"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", A_WHOLE_LIFE, str(tmp_path / "table")],
        cwd=folder,
        env={**os.environ, "SPARK_HOME": "/not/this/one", "TIDEMILL_DRIVER_MEMORY": "1g"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    seen = json.loads(done.stdout)
    assert (seen["rows"], seen["again"], seen["died"], seen["after"]) == (3, 5, True, 7)
    assert "native-hadoop" in Path(seen["log"]).read_text()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("master", ["local[1]", pytest.param("local-cluster[1,1,1024]", marks=pytest.mark.slow)])
def test_a_session_has_the_master_and_the_settings_that_were_asked_for(tmp_path: Path, master: str):
    """The cluster is a real one, of a master and a worker, whose executor is a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_SETTINGS, str(tmp_path / "table"), master],
        cwd=tmp_path,
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1g"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "rows": 435,
        "master": master,
        "partitions": "3",
        "same": True,
        "code": ["NO_CODEGEN", "FALLBACK"],
        "other": "This process has started a Spark with another spark.sql.shuffle.partitions, and it can have one "
        "only.",
        "remote": "This process has started a Spark with another address, and it can have one only.",
    }


def test_settings_that_leave_delta_out_are_an_error_before_anything_starts():
    code = (
        "from tidemill.model.project import SparkSettings\n"
        "from tidemill.spark.session import session_for\n"
        "from tidemill.errors import EngineError, Origin\n"
        "conf = {'spark.sql.catalog.spark_catalog': 'org.example.Mine'}\n"
        "try:\n    session_for(settings=SparkSettings(conf=conf, origin=Origin('tidemill.toml', 3)))\n"
        "except EngineError as error:\n    print(error.origin, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "tidemill.toml:3 [engine.no_delta] [spark.conf] sets spark.sql.catalog.spark_catalog, by which Spark finds "
        "Delta. Leave it out: it must be org.apache.spark.sql.delta.catalog.DeltaCatalog.\n"
    )


def test_ctrl_c_ends_a_long_job_and_its_jvm_without_a_java_traceback():
    process = subprocess.Popen(
        [sys.executable, "-c", A_LONG_JOB],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1g"},
    )
    try:
        assert process.stdout is not None
        jvm = int(process.stdout.readline())
        time.sleep(4)  # until the job runs: a loaded machine plans it for a while
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert errors == "stopped, and 3 rows counted\n"
    assert process.returncode == 1
    assert _ends(jvm)


def test_a_killed_process_takes_its_jvm_with_it():
    process = subprocess.Popen(
        [sys.executable, "-c", A_LONG_JOB],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1g"},
    )
    assert process.stdout is not None
    jvm = int(process.stdout.readline())
    process.kill()
    process.communicate()
    assert _ends(jvm)


def test_a_jvm_that_does_not_start_is_an_error_with_its_words_and_its_log():
    start = (
        "from tidemill.spark.session import embedded\n"
        "from tidemill.errors import EngineError\n"
        "try:\n    embedded()\nexcept EngineError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", start],
        env={**os.environ, "TIDEMILL_DRIVER_MEMORY": "1k"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith(
        "[engine.start_failed] Spark did not start: Error occurred during initialization of VM: Too small maximum heap."
    )
    assert "`tidemill doctor` checks what it needs; its own words are in " in done.stdout


def _ends(process: int) -> bool:
    for _ in range(300):
        if not _lives(process):
            return True
        time.sleep(0.1)
    return False


def _lives(process: int) -> bool:
    """A process that has ended may stay as a zombie until the system's first process fetches it."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/stat")
        return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False
