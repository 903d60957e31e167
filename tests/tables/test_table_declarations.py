"""Functions with `@tidemill.table` become the same declarations as others, and everything wrong is reported at once."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tables.conftest import write

import tidemill
from tidemill import Duration, MergeStrategy, SchemaPolicy
from tidemill.declarations import Append, Merge, NullTime, OnUnmet, Replace, Window
from tidemill.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from tidemill import Table
    from tidemill.api.workspace import Workspace

STATS = """
import tidemill

@tidemill.table(
    name="bronze.player_game_stats",
    keys=["playerId", "gameId", "situation"],
    time_column="gameDate",
    start="2023-10-01",
    lookback="1 day",
    timezone="America/New_York",
    batch="7 days",
    schema={"playerId": "BIGINT", "gameId": "BIGINT", "situation": "STRING", "gameDate": "DATE", "loaded": "TIMESTAMP"},
    dedup_order_by="loaded",
    reset_allowed=False,
    comment="a row for each player, game and situation",
    table_properties={"quality": "bronze", "delta.appendOnly": False},
    cluster_by=["gameId"],
    reads=["bronze.games"],
    tags="nightly",
    null_time="skip",
    volatile=["loaded"],
    on_schema_change="append_new_columns",
)
@tidemill.expect_or_fail("a player", "playerId > 0")
@tidemill.expect_all({"known": "situation IS NOT NULL", "early": "gameDate < '2030-01-01'"})
def stats(run):
    return []


@tidemill.table(strategy="replace")
def games():
    return []
"""


def test_a_function_is_a_table_like_all_others(load: Callable[..., Workspace]) -> None:
    games, stats = load({"nhl.py": STATS}).tables
    assert stats.name == "bronze.player_game_stats"
    assert str(stats.origin) == "models/bronze/nhl.py:4:2"
    keys = ("playerId", "gameId", "situation")
    assert stats.strategy == Merge(keys, dedup_order_by=("loaded",))
    assert stats.window == Window("gameDate", "2023-10-01", Duration(1, "day"), NullTime.SKIP)
    assert stats.function is not None
    assert stats.function.timezone.key == "America/New_York"
    assert stats.function.batch == Duration(7, "day")
    assert stats.function.schema is not None
    assert stats.function.schema.startswith("`playerId` BIGINT, `gameId` BIGINT")
    expected = [(each.name, each.condition, each.on_unmet) for each in stats.function.expectations]
    assert expected == [
        ("a player", "playerId > 0", OnUnmet.FAIL),
        ("known", "situation IS NOT NULL", OnUnmet.COUNT),
        ("early", "gameDate < '2030-01-01'", OnUnmet.COUNT),
    ]
    assert stats.reset_allowed is False
    assert stats.description == "a row for each player, game and situation"
    assert stats.properties == {"quality": "bronze", "delta.appendOnly": "false"}
    assert (stats.cluster_by, stats.inputs, stats.tags) == (("gameId",), ("bronze.games",), ("nightly",))
    assert (stats.volatile, stats.schema_policy) == (("loaded",), SchemaPolicy.APPEND_NEW_COLUMNS)
    assert (games.name, games.strategy, games.window) == ("bronze.games", Replace(0.1), None)


def test_keys_mean_a_merge_and_strategies_have_their_names(declared: Callable[..., Table]) -> None:
    assert declared('@tidemill.table(keys="id")').strategy == Merge(("id",))
    assert declared('@tidemill.table(keys="id", strategy="merge")').strategy == Merge(("id",))
    assert declared('@tidemill.table(strategy="append")').strategy == Append()
    assert declared('@tidemill.table(strategy="replace", max_shrink=1)').strategy == Replace(1)
    full = declared('@tidemill.table(keys="id", strategy="full_merge", max_shrink=0.5)').strategy
    assert full == Merge(("id",), MergeStrategy.FULL_MERGE, max_shrink=0.5)


def test_kept_rows_may_be_intended_where_rows_are_kept(
    declared: Callable[..., Table], errors: Callable[..., list[str]]
) -> None:
    assert declared('@tidemill.table(keys="id", kept_rows="intended")').kept_rows == "intended"
    (wrong,) = errors(
        {"x.py": 'import tidemill\n@tidemill.table(strategy="append", kept_rows="intended")\ndef t(): ...\n'}
    )
    assert wrong.splitlines()[0] == "error[models.misplaced_key] append takes no kept_rows"


def test_the_property_of_others_keeps_a_table_from_being_reset(declared: Callable[..., Table]) -> None:
    table = declared('@tidemill.table(keys="id", table_properties={"Pipelines.Reset.Allowed": False})')
    assert table.reset_allowed is False


def test_a_name_without_a_schema_is_in_that_of_its_folder(load: Callable[..., Workspace]) -> None:
    text = 'from tidemill import table\n@table(name="games", keys="id", reads=["silver.games", "bronze.games"])\n'
    others = STATS.replace('"bronze.p', '"p').replace("bronze.", "silver.")
    found = load({"nhl.py": f"{text}def f(run): ...", "models/silver/x.py": others}).graph.nodes
    assert {"bronze.games", "silver.player_game_stats", "silver.games"} == set(found)
    assert found["bronze.games"].inputs == ("silver.games",)  # reading itself is no circle


def test_expectations_may_stand_above_the_table_and_other_decorators_count(declared: Callable[..., Table]) -> None:
    table = declared(
        "import functools",
        "def doubled(f):",
        "    return functools.wraps(f)(lambda run: f(run) + [2])",
        "@doubled",
        '@tidemill.expect("one", "id > 1")',
        '@tidemill.table(keys="id")',
        '@tidemill.expect_or_drop("two", "id > 2")',
    )
    assert table.function is not None
    assert [each.name for each in table.function.expectations] == ["one", "two"]
    assert table.function.call(None) == [2]


def test_a_decorated_function_stays_a_function() -> None:
    @tidemill.table(keys="id")
    @tidemill.expect_all_or_fail({"id": "id > 0"})
    @tidemill.expect_all_or_drop({"day": "day > 0"})
    def rows() -> list[dict[str, int]]:
        return [{"id": 1}]

    assert rows() == [{"id": 1}]
    with pytest.raises(ArgumentError, match="Write the decorators above a def"):
        tidemill.table(keys="id")(3)  # type: ignore[type-var]


def test_functions_find_what_stands_beside_them(load: Callable[..., Workspace]) -> None:
    games = "@tidemill.table(keys='id')\ndef games(run):\n    import late\n    yield late.ROWS"
    text = f"import tidemill\nimport shared\n{games}"
    (table,) = load({"nhl.py": text, "late.py": "ROWS = [1]", "shared.py": "X = 1"}).tables
    assert table.function is not None
    assert list(table.function.call(None)) == [[1]]
    assert not {"shared", "nhl"} & set(sys.modules)


def test_files_that_do_not_import_tidemill_are_not_run(load: Callable[..., Workspace]) -> None:
    assert load({"nhl.py": STATS, "helper.py": "raise SystemExit('run')"}).tables


def test_everything_that_is_wrong_is_reported_at_once(errors: Callable[..., list[str]]) -> None:
    wrong = """
import tidemill

@tidemill.table(
    kyes=["playerId"],
    time_column="gameDate", start="yesterday", lookback="1 moon",
    timezone="America/New_Yrok", schema="playerId BIGINT gameId BIGINT",
    strategy="merge",
)
@tidemill.expect_or_drop("positive", "goals >= @least")
def stats(run): ...

@tidemill.table
def games(run): ...

@tidemill.table(name="a.b.c", keys="id", max_shrink=3, strategy="replace", batch="7 days")
def skaters(run): ...

@tidemill.table(keys="key", time_column="day", schema="id BIGINT, day DATE", batch="0 days")
@tidemill.expect("one", "id > 0")
@tidemill.expect("one", "id > 1")
def last(run): ...
"""
    found = errors({"nhl.py": wrong, "models/silver/cut.py": "import tidemill\n1 / 0", "bad.sql": "SELEC 1"})
    heads = [(lines[0], lines[1].strip()) for lines in (text.split("\n") for text in found)]
    assert heads == [
        ("error[language.not_a_query] no query starts with SELEC", "models/bronze/bad.sql:1:1"),
        ("error[models.unknown_key] @table has no key kyes", "models/bronze/nhl.py:5:5"),
        ("error[models.bad_start] start cannot be yesterday", "models/bronze/nhl.py:6:29"),
        ("error[window.bad_duration] '1 moon' is not a length of time", "models/bronze/nhl.py:6:48"),
        ("error[models.bad_timezone] America/New_Yrok is no time zone", "models/bronze/nhl.py:7:5"),
        (
            "error[functions.bad_schema] 'playerId BIGINT gameId BIGINT' is no list of columns and types",
            "models/bronze/nhl.py:7:34",
        ),
        ("error[models.bad_condition] an expectation takes no variables", "models/bronze/nhl.py:10:26"),
        ("error[models.missing_key] nothing says how its rows enter the table", "models/bronze/nhl.py:13:1"),
        ("error[table.bad_name] 'a.b.c' is no name of a table", "models/bronze/nhl.py:16:17"),
        ("error[models.misplaced_key] replace takes no keys", "models/bronze/nhl.py:16:31"),
        ("error[table.bad_max_shrink] max_shrink is a share from 0 to 1, not 3", "models/bronze/nhl.py:16:42"),
        ("error[models.missing_key] batch needs time_column", "models/bronze/nhl.py:16:76"),
        (
            "error[models.unknown_column] keys names key, which the schema does not have",
            "models/bronze/nhl.py:19:17",
        ),
        ("error[models.bad_batch] a batch of 0 days is none", "models/bronze/nhl.py:19:78"),
        ("error[models.bad_expectation] one is expected twice", "models/bronze/nhl.py:20:18"),
        (
            "error[models.sidecar_failed] running this file failed: ZeroDivisionError: division by zero",
            "models/silver/cut.py:2:1",
        ),
    ]
    assert "^^^^ did you mean keys?" in found[1]


def test_arguments_of_other_types_are_reported_with_what_to_write(errors: Callable[..., list[str]]) -> None:
    text = "import tidemill\n@tidemill.table(keys=5, comment=7, table_properties=3)\ndef f(run): ..."
    found = errors({"nhl.py": text})
    assert [line for each in found for line in each.split("\n")[::3]] == [
        "error[models.wrong_type] keys must be a text or a list of texts, not 5",
        '      │                 ^^^^ write keys="…"',
        "error[models.wrong_type] comment must be a text, not 7",
        '      │                         ^^^^^^^ write comment="…"',
        "error[models.wrong_type] table_properties must be a dict, not 3",
        "      │                                    ^^^^^^^^^^^^^^^^ write table_properties={ … }",
    ]


def test_two_tables_of_one_name_are_an_error(errors: Callable[..., list[str]]) -> None:
    assert "bronze.games is declared twice" in errors({"nhl.py": STATS, "models/bronze/games.sql": "SELECT 1 AS id"})[0]


def test_a_python_file_alone_is_a_project_by_itself(cli: Callable[..., Result], tmp_path) -> None:
    (tmp_path / "tidemill.toml").unlink()
    write({"./nhl.py": STATS.replace("bronze.", "")})
    result = cli("list", "nhl.py")
    assert result.exit_code == 0, result.output
    assert "  player_game_stats  " in result.output
    assert "nhl.py:4:2" in result.output


def test_a_file_of_a_project_can_be_named_and_a_sidecar_cannot(cli: Callable[..., Result]) -> None:
    write({"nhl.py": STATS, "model.sql": "SELECT 1 AS id", "model.py": "metadata = {}"})
    found = cli("list", "models/bronze/nhl.py").output
    assert "bronze.games" in found
    assert "bronze.model" not in found
    assert "target.is_model" in cli("list", "models/bronze/model.py").stderr


def test_a_table_that_cannot_be_read_is_not_treated_as_a_first_run(cli: Callable[..., Result]) -> None:
    log = "warehouse/bronze/games/_delta_log/00000000000000000000.json"
    write({"nhl.py": STATS, log: "half a comm"})
    found = cli("plan", "-s", "bronze.games")
    assert found.exit_code == 1
    assert "error[table.unreadable] The log of " in found.stderr
    assert "first run" not in found.output


def test_metadata_commands_start_no_spark() -> None:
    write({"nhl.py": STATS})
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom tidemill.cli.main import tidemill\n"
        "for command in ('validate', 'list', 'plan', 'status', 'state', 'show-watermarks', 'graph'):\n"
        "    print(CliRunner().invoke(tidemill, [command], catch_exceptions=False).output)\n"
        "assert 'pyspark' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "first run: 2023-10-01 … " in found.stdout


def test_validate_proposes_keys_and_a_time_column(cli: Callable[..., Result]) -> None:
    write({"nhl.py": STATS + '@tidemill.table(strategy="append")\ndef log():\n    return []\n'})
    found = cli("validate").output
    assert "bronze.games is read and written whole each run; with keys=[…] its function may give only what is" in found
    assert "bronze.log appends every row that it is given; time_column=… would let each row enter once" in found


def test_statements_of_a_function_say_which_function_gives_the_rows(cli: Callable[..., Result]) -> None:
    write({"nhl.py": STATS})
    found = cli("compile", "bronze.player_game_stats").output
    assert "SELECT * FROM stats;" in found
    assert "-- stats is the function at models/bronze/nhl.py:4:2" in found
