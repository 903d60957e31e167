"""The project file says where tables are, which Spark runs, and what variables are worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import ArgumentError, Origin
from tidemill.frontends.project import Flags, OutsideSource, ProjectSettings, Warehouse
from tidemill.frontends.project_file import Filling
from tidemill.model import FileErrors, excerpt
from tidemill.model.project import SparkSettings, find_project, given_variables

SHOP = """\
name = "shop"
[warehouse]
path = "warehouse"              # relative to this file
schema = "shop"
[spark]
master = "local[2]"
[spark.conf]
"spark.sql.shuffle.partitions" = "8"
spark.sql.ansi.enabled = true
[vars]
region = "eu"
days = 3
strict = false
[sources."t_project.source_table"]
type = "parquet"
path = "data/source"
[sources.other.table]
type = "CSV"
header = true
[flags]
materialization_change_behavior = "error"
[profiles.prod.warehouse]
path = "s3://lake/shop/"
[profiles.prod.spark.conf]
"spark.sql.shuffle.partitions" = 200
[profiles.prod.vars]
region = "us"
[profiles.prod.sources."t_project.source_table"]
path = "/lake/source"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, file: str = "tidemill.toml") -> None:
    Path(file).write_text(text, encoding="utf-8")


def mistakes(text: str) -> list[str]:
    write(text)
    with pytest.raises(FileErrors) as failure:
        ProjectSettings.load()
    assert failure.value.exit_code == 2
    return [excerpt(error).replace(f"{Path.cwd()}/", "") for error in failure.value.errors]


def test_a_project_is_what_its_file_says(folder):
    write(SHOP)
    assert ProjectSettings.load() == ProjectSettings(
        name="shop",
        folder=folder,
        warehouse=Warehouse(str(folder / "warehouse"), "shop", "delta"),
        spark=SparkSettings(
            master="local[2]", conf={"spark.sql.shuffle.partitions": "8", "spark.sql.ansi.enabled": "true"}
        ),
        vars={"region": "eu", "days": "3", "strict": "false"},
        sources={
            "t_project.source_table": OutsideSource(
                "t_project.source_table",
                "parquet",
                {"path": "data/source"},
                Origin(str(folder / "tidemill.toml"), 14, 2),
            ),
            "other.table": OutsideSource(
                "other.table", "csv", {"header": True}, Origin(str(folder / "tidemill.toml"), 17, 2)
            ),
        },
        flags=Flags("error"),
        file=folder / "tidemill.toml",
    )


def test_a_profile_lies_over_the_rest():
    write(SHOP)
    project = ProjectSettings.load(profile="prod")
    assert project.warehouse == Warehouse("s3://lake/shop/", "shop", "delta")
    assert project.spark.conf["spark.sql.shuffle.partitions"] == "200"
    assert (project.vars["region"], project.vars["days"]) == ("us", "3")
    assert project.sources["t_project.source_table"].params == {"path": "/lake/source"}
    assert project.table_path("daily") == "s3://lake/shop/shop/daily"
    assert project.profile == "prod"


def test_settings_of_spark_may_hold_variables_and_secrets(folder, monkeypatch):
    write('[spark]\nremote = "sc://${host}"\n[spark.conf]\n"spark.hadoop.key" = "${env:LAKE_KEY}"\n[vars]\nhost = "a"')
    monkeypatch.setenv("LAKE_KEY", "swordfish")
    project = ProjectSettings.load()
    filling = Filling(project.variables({"host": "b:1"}))
    assert project.engine(filling) == SparkSettings(remote="sc://b:1", conf={"spark.hadoop.key": "swordfish"})
    assert filling.secrets == {"swordfish"}
    assert "swordfish" not in repr(project.engine(filling))
    assert str(project.spark.origin) == f"{folder / 'tidemill.toml'}:1:2"


def test_a_project_needs_to_say_nothing(folder):
    write("")
    project = ProjectSettings.load()
    assert (project.name, project.warehouse) == (folder.name, Warehouse(str(folder / "warehouse"), "main", "delta"))
    assert (project.spark, project.flags) == (SparkSettings("local[*]"), Flags("warn"))


def test_a_project_is_found_from_any_folder_in_it(folder):
    write(SHOP)
    (folder / "pipelines" / "deep").mkdir(parents=True)
    for start in (".", "pipelines", "pipelines/deep", "pipelines/shop.sql", "tidemill.toml"):
        assert find_project(start) == folder / "tidemill.toml"
        assert ProjectSettings.load(start).name == "shop"


def test_the_nearest_project_is_the_one(folder):
    write("name = 'outer'")
    (folder / "inner").mkdir()
    write("name = 'inner'", "inner/tidemill.toml")
    assert ProjectSettings.load("inner").name == "inner"


def test_no_project_says_how_to_make_one(folder):
    assert find_project(folder) is None
    with pytest.raises(ArgumentError) as failure:
        ProjectSettings.load()
    assert str(failure.value) == (
        f"[project.not_found] There is no tidemill.toml in {folder} or above it. "
        "Make a project with tidemill init NAME, or name a pipeline file or a Python file."
    )


def test_a_pipeline_alone_has_its_warehouse_beside_it(folder):
    (folder / "a").mkdir()
    project = ProjectSettings.load("a/shop.sql")
    assert (project.name, project.folder, project.file) == ("shop", folder / "a", None)
    assert project.table_path("daily") == str(folder / "a" / "warehouse" / "main" / "daily")
    assert project.pipelines == (Path("a/shop.sql"),)
    write("X=from .env", "a/.env")
    assert project.variables().find_secret("X").text == "from .env"


def test_pipelines_are_the_sql_files_in_order(folder):
    write("")
    (folder / "pipelines").mkdir()
    for name in ("b.sql", "a.sql", "notes.md"):
        write("", f"pipelines/{name}")
    assert [path.name for path in ProjectSettings.load().pipelines] == ["a.sql", "b.sql"]


def test_tables_lie_in_the_folder_of_their_schema(folder):
    write(SHOP)
    project = ProjectSettings.load()
    assert project.table_path("daily") == str(folder / "warehouse" / "shop" / "daily")
    assert project.table_path("mart.daily") == str(folder / "warehouse" / "mart" / "daily")
    for name in ("a.b.c", "../up", "", "a/b", "a."):
        with pytest.raises(ArgumentError, match="is no name of a table"):
            project.table_path(name)


def test_variables_are_found_in_their_order(monkeypatch):
    write(SHOP)
    write('region=dotenv\nSECRET="from .env"\n', ".env")
    monkeypatch.setenv("SECRET", "from the environment")
    monkeypatch.setenv("HOME_TOWN", "Riva")
    variables = ProjectSettings.load().variables({"days": "7"})
    assert [variables.find(name).text for name in ("days", "region", "strict")] == ["7", "eu", "false"]
    assert variables.find("region", {"region": "set"}).text == "eu"
    assert (variables.find("SECRET").text, variables.find("SECRET").secret) == ("from .env", True)
    assert variables.find("HOME_TOWN").text == "Riva"
    assert variables.find("nowhere") is None
    assert "from .env" not in repr(variables)


MISTAKES = {
    "an unknown section": (
        'name = "shop"\n[warehose]\npath = "x"',
        """
error[project.unknown_key] a project file has no key warehose
  tidemill.toml:2:2
    2 │ [warehose]
      │  ^^^^^^^^ did you mean warehouse?
""",
    ),
    "an unknown key": (
        '[warehouse]\npath = "x"\nshema = "y"   # oops',
        """
error[project.unknown_key] [warehouse] has no key shema
  tidemill.toml:3:1
    3 │ shema = "y"   # oops
      │ ^^^^^ did you mean schema?
""",
    ),
    "a key like no other": (
        "[spark]\ncolour = 1",
        """
error[project.unknown_key] [spark] has no key colour
  tidemill.toml:2:1
    2 │ colour = 1
      │ ^^^^^^ the keys are master, remote, conf
""",
    ),
    "an unknown key in a profile": (
        '[profiles.prod]\nwarehouse.pth = "x"',
        """
error[project.unknown_key] [profiles.prod.warehouse] has no key pth
  tidemill.toml:2:1
    2 │ warehouse.pth = "x"
      │ ^^^^^^^^^^^^^ did you mean path?
""",
    ),
    "a wrong type": (
        "name = 1",
        """
error[project.wrong_type] name must be a text
  tidemill.toml:1:1
    1 │ name = 1
      │ ^^^^ write it in "…"
""",
    ),
    "no table": (
        'warehouse = "x"',
        """
error[project.wrong_type] warehouse must be a table
  tidemill.toml:1:1
    1 │ warehouse = "x"
      │ ^^^^^^^^^ write [warehouse] and its keys below
""",
    ),
    "a list as a variable": (
        "[vars]\nregions = ['a']",
        """
error[project.wrong_type] vars.regions must be a text or a number
  tidemill.toml:2:1
    2 │ regions = ['a']
      │ ^^^^^^^ write one value
""",
    ),
    "an unknown format": (
        '[warehouse]\nformat = "dleta"',
        """
error[project.bad_value] warehouse.format must be one of delta, parquet
  tidemill.toml:2:1
    2 │ format = "dleta"
      │ ^^^^^^ did you mean delta?
""",
    ),
    "an unknown behavior at a change of mind": (
        '[flags]\nmaterialization_change_behavior = "wran"',
        """
error[project.bad_value] flags.materialization_change_behavior must be one of warn, error, ignore
  tidemill.toml:2:1
    2 │ materialization_change_behavior = "wran"
      │ ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ did you mean warn?
""",
    ),
    "a source without a type": (
        '[sources."a.b"]\npath = "x"',
        """
error[project.source_without_type] source a.b has no type
  tidemill.toml:1:2
    1 │ [sources."a.b"]
      │  ^^^^^^^^^^^^^ write type = "parquet"
""",
    ),
    "two engines": (
        '[spark]\nmaster = "local"\nremote = "sc://x"',
        """
error[project.two_engines] spark has a master and a remote
  tidemill.toml:1:2
    1 │ [spark]
      │  ^^^^^ keep one of them
""",
    ),
    "a remote that is none": (
        '[spark]\nremote = "spark://x:7077"',
        """
error[project.bad_value] spark.remote must begin with sc://
  tidemill.toml:2:1
    2 │ remote = "spark://x:7077"
      │ ^^^^^^ write remote = "sc://host:15002", or name a cluster as master
""",
    ),
    "no TOML": (
        'name = "shop"\npath = warehouse\n',
        """
error[project.not_toml] this is not TOML: invalid value
  tidemill.toml:2:8
    2 │ path = warehouse
      │        ^ correct it
""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_shown_at_its_line(text, expected):
    assert mistakes(text) == [expected.strip("\n")]


def test_all_mistakes_come_in_one_go():
    assert len(mistakes("nam = 1\n[warehouse]\npath = 2\n[flags]\nx = 1")) == 3


def test_a_text_over_several_lines_does_not_move_the_place():
    (error,) = mistakes('name = """\n[vars]\nshema = 1\n"""\n[warehouse]\nshema = "x"')
    assert "tidemill.toml:6:1" in error


def test_an_unknown_profile_is_an_error_with_the_known_ones():
    write(SHOP)
    with pytest.raises(ArgumentError) as failure:
        ProjectSettings.load(profile="prd")
    assert str(failure.value) == "[project.unknown_profile] There is no profile prd. Did you mean prod?"
    with pytest.raises(ArgumentError, match="The profiles are prod"):
        ProjectSettings.load(profile="staging")


def test_variables_are_given_on_the_command_line():
    assert given_variables('{"a": 1, "b": "x", "c": true}', ["b=y=z", "d="]) == {
        "a": "1",
        "b": "y=z",
        "c": "true",
        "d": "",
    }
    assert given_variables() == {}


@pytest.mark.parametrize(
    ("document", "pairs", "code"),
    [
        ("{a: 1}", [], "variables.bad_json"),
        ("[1]", [], "variables.bad_json"),
        ('{"a": [1]}', [], "variables.bad_json"),
        ('{"a": null}', [], "variables.bad_json"),
        (None, ["a"], "variables.bad_pair"),
        (None, ["=1"], "variables.bad_pair"),
    ],
)
def test_variables_that_are_none_are_errors(document, pairs, code):
    with pytest.raises(ArgumentError) as failure:
        given_variables(document, pairs)
    assert failure.value.code == code
