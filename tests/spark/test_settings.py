from __future__ import annotations

from pathlib import Path

from tidemill.formats import FORMATS, spark_support
from tidemill.formats.traits import FormatTraits, Jar, SparkSupport
from tidemill.spark.errors import is_conflict
from tidemill.spark.jars import format_jars
from tidemill.spark.jvm import carried_settings, engine_settings

DELTA = spark_support().settings
FOLDER, JARS = Path("/folder"), [Path("/jars/a.jar"), Path("/jars/b.jar")]


def test_the_default_settings_are_for_one_machine():
    found = engine_settings({}, FOLDER, JARS)
    assert found.items() >= {**DELTA, "spark.master": "local[*]", "spark.driver.host": "127.0.0.1"}.items()
    assert found["spark.sql.warehouse.dir"] == "file:///folder/warehouse"
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert "spark.jars" not in found


def test_the_users_settings_win():
    found = engine_settings({"spark.sql.session.timeZone": "Asia/Tokyo", "x": "y"}, FOLDER, JARS, "local[1]")
    assert (found["spark.sql.session.timeZone"], found["x"], found["spark.master"]) == ("Asia/Tokyo", "y", "local[1]")


def test_lists_have_what_the_user_and_what_tidemill_needs():
    ours = DELTA["spark.sql.extensions"]
    found = engine_settings({"spark.sql.extensions": "org.example.Mine"}, FOLDER, JARS)
    assert found["spark.sql.extensions"] == f"org.example.Mine,{ours}"
    again = engine_settings({"spark.sql.extensions": f"{ours}, org.example.Mine"}, FOLDER, JARS)
    assert again["spark.sql.extensions"] == f"{ours},org.example.Mine"
    cluster = engine_settings({"spark.jars": "/mine.jar"}, FOLDER, JARS, "yarn")
    assert cluster["spark.jars"] == "/mine.jar,/jars/a.jar,/jars/b.jar"


def test_a_cluster_gets_the_jars_and_nothing_that_is_for_one_machine_only():
    for found in (
        engine_settings({}, FOLDER, JARS, "spark://host:7077"),
        engine_settings({"spark.master": "spark://host:7077"}, FOLDER, JARS),
    ):
        assert found.items() >= {**DELTA, "spark.master": "spark://host:7077"}.items()
        assert found["spark.jars"] == "/jars/a.jar,/jars/b.jar"
        assert not {"spark.driver.host", "spark.sql.warehouse.dir", "spark.sql.shuffle.partitions"} & found.keys()


def test_small_work_is_neither_compiled_nor_planned_twice_unless_the_user_wants_it():
    names = ("spark.sql.codegen.factoryMode", "spark.sql.adaptive.enabled")
    found = engine_settings({}, FOLDER, JARS, small=True)
    assert [found.get(name) for name in names] == ["NO_CODEGEN", "false"]
    wanted = engine_settings({"spark.sql.adaptive.enabled": "true"}, FOLDER, JARS, small=True)
    assert wanted["spark.sql.adaptive.enabled"] == "true"
    assert [engine_settings({}, FOLDER, JARS).get(name) for name in names] == [None, "true"]


def test_what_ran_is_kept_for_the_web_interface_only_where_there_is_one():
    assert engine_settings({}, FOLDER, JARS)["spark.ui.retainedJobs"] == "20"
    assert "spark.ui.retainedJobs" not in engine_settings({"spark.ui.enabled": "true"}, FOLDER, JARS)
    assert "spark.ui.retainedJobs" not in engine_settings({}, FOLDER, JARS, "yarn")


def test_a_format_that_is_registered_brings_what_spark_needs_for_it(monkeypatch):
    lake = SparkSupport(
        title="Lake",
        jars=(Jar("org.example", "lake", "1.0", "00"),),
        settings={"spark.sql.extensions": "org.example.Lake", "spark.sql.catalog.lake": "org.example.Catalog"},
        carried=("spark.lake.",),
        not_carried=("spark.lake.commit.",),
        conflicts=frozenset({"LakeConflict"}),
    )
    monkeypatch.setitem(FORMATS, "lake", FormatTraits("lake", "Lake table", spark=lake))
    found = engine_settings({}, FOLDER, JARS)
    assert found["spark.sql.extensions"] == f"{DELTA['spark.sql.extensions']},org.example.Lake"
    assert found["spark.sql.catalog.lake"] == "org.example.Catalog"
    assert format_jars()[-1].file == "lake-1.0.jar"
    given = {"spark.lake.size": "1", "spark.lake.commit.id": "2", "spark.app.name": "x"}
    assert carried_settings(given) == {"spark.lake.size": "1"}
    conflict = RuntimeError("late")
    conflict.__cause__ = type("LakeConflict", (Exception,), {})("late")
    assert is_conflict(conflict)
