"""`tidemill validate`: whatever is wrong in any file is reported at once, and no Spark is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = """LAOD raw FROM s;
SOURCE s TYPE CSV PARAMS { "path": "s.csv" };
LOAD a FROM s MODE MERGE ON id OPTIONS { "only_newer": true };
LOAD b FROM nowhere;
CREATE TABLE c AS SELECT * FROM nothing JOIN raw JOIN a;
EXPORT SELECT * FROM gone TO "out" TYPE XLSX;
LOAD d FROM s OPTIONS { "partition_by": "x", "cluster_by": "y" };
"""


def test_mistakes_of_all_kinds_come_in_one_go_each_with_its_line(folder: Path, cli):
    """Nothing is said of `raw` and `a`: what is wrong with them is said where they are declared."""
    (folder / "tidemill.toml").write_text("")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.sql").write_text(EVERYTHING)
    (folder / "models" / "m").mkdir(parents=True)
    (folder / "models" / "m" / "one.sql").write_text('-- metadata: {"tagz": ["x"]}\nSELECT 1 AS id')
    (folder / "models" / "m" / "two.sql").write_text("SELECT * FROM m.one JOIN m.three")
    result = cli("validate", "--format", "json")
    assert result.exit_code == 2
    assert [(error["code"], error["origin"]) for error in json.loads(result.stdout)["error"]["errors"]] == [
        ("language.unknown_statement", "pipelines/p.sql:1:1"),
        ("table.only_newer", "pipelines/p.sql:3:1"),
        ("language.unknown_source", "pipelines/p.sql:4:13"),
        ("plan.unknown_table", "pipelines/p.sql:5:1"),
        ("export.unknown_kind", "pipelines/p.sql:6:1"),
        ("plan.unknown_table", "pipelines/p.sql:6:1"),
        ("table.two_layouts", "pipelines/p.sql:7:1"),
        ("models.unknown_key", "models/m/one.sql:1:15"),
        ("plan.unknown_table", "models/m/two.sql:1:1"),
    ]


def test_a_file_that_cannot_be_read_may_declare_what_is_not_found(folder: Path, cli):
    (folder / "p.sql").write_text('INCLUDE "gone.sql";\nLOAD b FROM s;\nCREATE TABLE c AS SELECT * FROM nothing;')
    result = cli("validate", "p.sql")
    assert result.stderr.count("error[") == 1
    assert "error[language.missing_file] there is no file gone.sql" in result.stderr


def test_an_export_of_a_table_that_nobody_knows_is_one_mistake(folder: Path, cli):
    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;\nEXPORT b TO 'b.csv' TYPE CSV;\nLOAD c FROM d;")
    errors = json.loads(cli("validate", "p.sql", "--format", "json").stdout)["error"]["errors"]
    assert [(each["code"], each["origin"]) for each in errors] == [
        ("language.unknown_table", "p.sql:2:8"),
        ("language.unknown_source", "p.sql:3:13"),
    ]


def test_files_of_a_source_that_are_not_there_are_reported_and_may_be_yet_to_come(folder: Path, cli):
    (folder / "p.sql").write_text(
        'SOURCE a TYPE CSV PARAMS { "path": "gone/*.csv" };\nLOAD a FROM a;\n'
        'SOURCE b TYPE CSV PARAMS { "path": "s3://shop/b.csv" };\nLOAD b FROM b;\n'
    )
    result = cli("validate", "p.sql")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "  ! no errors · 1 notice · 2 tables")
    assert result.stdout.splitlines()[0] == (
        f"  notice  The source a could not be read: There is nothing at {folder}/gone/*.csv."
    )


@pytest.mark.parametrize("project", [True, False])
def test_a_file_that_cannot_be_run_is_reported_as_that_in_a_project_too(folder: Path, cli, project: bool):
    (folder / "notes.txt").write_text("mine")
    if project:
        (folder / "tidemill.toml").write_text("")
    for name, said in (
        ("notes.txt", "target.no_pipeline] notes.txt is neither a pipeline file nor a Python file."),
        ("gone.sql", "target.missing] There is no file or folder gone.sql."),
    ):
        result = cli("run", name)
        assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"error[{said}")


PARAMS = """SOURCE a TYPE CSV PARAMS { "pth": "s.csv" };
SOURCE b TYPE POSTGRES PARAMS { "url": "mysql://host/db", "table": "t", "password": "geheim" };
SOURCE c TYPE PYTHON PARAMS { "function": "fetch" };
LOAD ta FROM a;
"""


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_params_of_sources_are_looked_at_before_anything_runs(folder: Path, cli, command: str):
    (folder / "p.sql").write_text(PARAMS)
    result = cli(command, "p.sql")
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line for line in result.stderr.splitlines() if not line.startswith("  ")] == [
        "error[source.missing_param] The source a needs path.",
        "error[source.bad_param] url of the source b is not one of PostgreSQL.",
        "error[source.bad_param] function of the source c must name a module and a function, not fetch.",
        "3 errors · nothing was run",
    ]
    assert "geheim" not in result.stderr


def test_the_command_that_an_error_proposes_names_the_file_that_was_named(folder: Path, cli):
    (folder / "my shop.sql").write_text("CREATE TABLE a AS SELECT @id AS id;")
    result = cli("plan", "my shop.sql")
    assert result.exit_code == 2
    assert "Give it on the command line: tidemill run 'my shop.sql' -s main.a --vars" in result.stderr


UNKNOWN = """SOURCE a TYPE CVS PARAMS { "path": "s.csv" };
SOURCE b TYPE CSV PARAMS { "path": "s.csv", "seperator": ";" };
LOAD a FROM a;
LOAD b FROM b;
EXPORT b TO 'b.csv' TYPE CSV OPTIONS { "quoteal": true };
EXPORT SELECT * FROM b JOIN raw.c USING (id) TO 'c.csv' TYPE CSV;
"""


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_names_that_nobody_knows_are_found_in_params_options_and_the_project_file(folder: Path, cli, command: str):
    (folder / "tidemill.toml").write_text('[sources."raw.c"]\ntype = "json"\npath = "c.json"\nmultiline_ = true\n')
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "p.sql").write_text(UNKNOWN)
    result = cli(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line for line in result.stderr.splitlines() if not line.startswith(("  pipelines", "  /"))] == [
        "error[source.unknown_kind] CVS is no kind of source that Tidemill or Spark knows.",
        "  Did you mean CSV?",
        "error[source.unknown_param] The source b of kind CSV has no param seperator.",
        "  Did you mean sep?",
        "error[source.unknown_param] The source raw.c of kind JSON has no param multiline_.",
        "  Did you mean multiLine?",
        "error[export.unknown_option] The export b.csv has no option quoteal.",
        "  Did you mean quoteAll?",
        "4 errors · nothing was run",
    ]


def test_a_kind_that_only_spark_could_know_is_a_notice(folder: Path, cli):
    (folder / "p.sql").write_text("SOURCE a TYPE MONGODB;\nLOAD a FROM a;\n")
    assert cli("validate", "p.sql").stdout.splitlines() == [
        "  notice  The source a needs a Spark data source called MONGODB, which is not looked for.",
        "  ! no errors · 1 notice · 1 table",
    ]
