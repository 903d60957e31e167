"""The words of a join in a pipeline and in a model's metadata: one declaration, and every mistake at its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemill import Duration, JoinType
from tidemill.api.workspace import Workspace
from tidemill.declarations import Join, JoinSide, StartVariable, Template
from tidemill.model import FileErrors, excerpt

if TYPE_CHECKING:
    from cli.conftest import Cli

    from tidemill import Table

SIDES = "bank AS a BY process_date WITH sepa AS b BY process_date"
PAYMENTS = f"""
CREATE TABLE payments OPTIONS {{ "tags": "nightly", "partition_by": "target_time" }} AS
INCREMENTAL LEFT JOIN {SIDES}
ON a.reference = b.reference AND (a.start > @first OR b.kind IN (1, 2)) LOOK BACK 6 DAYS LOOK FORWARD 10 DAYS
START '2024-03-01' UP TO @day
SELECT a.*, coalesce(b.amount, @none) AS sepa_amount, current_timestamp() AS loaded_at;
CREATE TABLE bank AS SELECT 1;
CREATE TABLE sepa AS SELECT 1;
"""


def declared(text: str) -> dict[str, Table]:
    Path("shop.sql").write_text(text)
    return {table.name.removeprefix("main."): table for table in Workspace.load("shop.sql").tables}


def test_the_words_of_a_pipeline_become_a_declaration() -> None:
    table = declared(PAYMENTS)["payments"]
    assert table.producer == Join(
        a=JoinSide("main.bank", "a", "process_date"),
        b=JoinSide("main.sepa", "b", "process_date"),
        on=Template(("a.reference = b.reference AND (a.start > ", " OR b.kind IN (1, 2))"), ("first",)),
        how=JoinType.LEFT,
        look_back=Duration(6, "day"),
        look_forward=Duration(10, "day"),
        select=(
            Template(("a.*",)),
            Template(("coalesce(b.amount, ", ") AS sepa_amount"), ("none",)),
            Template(("current_timestamp() AS loaded_at",)),
        ),
        start="2024-03-01",
        up_to=StartVariable("day"),
    )
    assert (str(table.strategy), table.inputs) == ("incremental_join", ("main.bank", "main.sepa"))
    assert (table.volatile, table.tags, table.partition_by) == (("loaded_at",), ("nightly",), ("target_time",))
    assert table.window is not None
    assert table.window.time_column == "target_time"


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("", "inner"),
        ("INNER ", "inner"),
        ("RIGHT ", "right"),
        ("full ", "full_outer"),
        ("FULL OUTER ", "full_outer"),
        ("LEFT ANTI ", "left_anti"),
        ("RIGHT ANTI ", "right_anti"),
    ],
)
def test_every_type_of_join_has_its_words_and_clauses_come_in_any_order(words: str, how: str) -> None:
    text = f"CREATE TABLE j AS INCREMENTAL {words}JOIN bank BY n WITH main.sepa BY `the n` ON a.k = b.k "
    clauses = "UP TO 9 LOOK FORWARD 3 STATUS AS `how so` SUFFIXES ('', '_sepa') LOOK BACK 2 TIME AS at"
    table = declared(f"{text} {clauses} SELECT *; {PAYMENTS}")["j"]
    found = table.producer
    assert isinstance(found, Join)
    assert (found.how, found.look_back, found.look_forward, found.up_to) == (how, 2, 3, "9")
    assert (found.a, found.b) == (JoinSide("main.bank", "a", "n"), JoinSide("main.sepa", "b", "the n"))
    assert (found.time, found.status, found.suffixes) == ("at", "how so", ("", "_sepa"))
    assert table.window is not None
    assert table.window.time_column == "at"


def test_what_decides_its_rows_changes_the_hash_and_where_it_stands_does_not() -> None:
    first = declared(PAYMENTS)["payments"]
    moved = declared(f"\n\n{PAYMENTS}".replace("UP TO @day", "UP TO '2024-04-01'"))["payments"]
    assert (moved.sql_hash, moved.config_hash) == (first.sql_hash, first.config_hash)
    for old, new in (("10 DAYS", "11 DAYS"), ("@none", "0"), ("UP TO @day", "UP TO @day TIME AS at")):
        assert declared(PAYMENTS.replace(old, new))["payments"].sql_hash != first.sql_hash


MISTAKES = {
    "another type": (f"CROSS JOIN {SIDES}", "there is no INCREMENTAL CROSS JOIN", "the types are INNER, LEFT, RIGHT"),
    "a type like another": (f"LEFT ANTY JOIN {SIDES}", "there is no INCREMENTAL LEFT ANTY JOIN", "mean LEFT ANTI?"),
    "no table": ("LEFT JOIN BY x", "JOIN needs the name of a table", "write INCREMENTAL LEFT JOIN orders AS a BY day"),
    "no time": ("LEFT JOIN bank AS a WITH sepa BY x", "JOIN bank needs BY", "the column that says when a row came"),
    "no other side": ("LEFT JOIN bank AS a BY x ON 1", "INCREMENTAL JOIN needs WITH", "WITH and the other table"),
    "one name": ("LEFT JOIN bank AS x BY d WITH sepa AS X BY d", "both tables of the join are called x", "AS a …"),
    "no condition": (f"LEFT JOIN {SIDES} LOOK BACK 1", "INCREMENTAL JOIN needs ON", "write ON and a condition"),
    "no lengths": (f"LEFT JOIN {SIDES} ON true", "needs LOOK BACK, LOOK FORWARD and SELECT", "write LOOK BACK 6 DAYS"),
    "one length": (f"LEFT JOIN {SIDES} ON true LOOK BACK 1 DAY SELECT *", "needs LOOK FORWARD", "LOOK FORWARD 6 DAYS"),
    "a length twice": (f"LEFT JOIN {SIDES} ON true LOOK BACK 1 LOOK BACK 2", "LOOK BACK is given twice", "keep one"),
    "months": (f"LEFT JOIN {SIDES} ON true LOOK BACK 2 MONTHS", "LOOK BACK 2 months has no fixed length", "in days"),
    "no unit": (f"LEFT JOIN {SIDES} ON true LOOK BACK 2 MOONS", "MOONS is no unit of time", "did you mean MONTHS?"),
    "one own name": (f"LEFT JOIN {SIDES} ON true TIME AS Waited", "two of the join's own columns are called", "names"),
    "no own name": (f"LEFT JOIN {SIDES} ON true STATUS AS 7", "STATUS AS needs a name", "write STATUS AS status_of"),
    "one suffix": (f"LEFT JOIN {SIDES} ON true SUFFIXES ('_a')", "SUFFIXES needs two texts", "SUFFIXES ('', '_b')"),
    "a moving start": (f"LEFT JOIN {SIDES} ON true START @day", "START needs a time", "or START '${first}'"),
    "a window inside": (
        f"LEFT JOIN {SIDES} ON a.k = b.k AND a.day >= @start_date LOOK BACK 1 LOOK FORWARD 1 SELECT *",
        "@start_date is another one in every window, and the rows of a join are the same in all",
        "a window reads by itself what it needs",
    ),
    "a window outside": (
        f"LEFT JOIN {SIDES} ON a.k = b.k LOOK BACK 1 LOOK FORWARD 1 SELECT a.*, @end_dt AS until",
        "@end_dt is another one in every window",
        "leave it out",
    ),
    "the clock": (
        f"LEFT JOIN {SIDES} ON a.k = b.k AND b.day < current_date() LOOK BACK 1 LOOK FORWARD 1 SELECT *",
        "the condition reads the clock, and whether two rows are a pair must not depend on when they are joined",
        "LOOK BACK and LOOK FORWARD bound how far apart two rows may come",
    ),
    "no columns": (f"LEFT JOIN {SIDES} ON true LOOK BACK 1 LOOK FORWARD 1", "needs SELECT and columns", "write SELECT"),
    "empty columns": (f"LEFT JOIN {SIDES} ON true LOOK BACK 1 LOOK FORWARD 1 SELECT", "SELECT needs columns", "a.*"),
    "a whole query": (
        f"LEFT JOIN {SIDES} ON true LOOK BACK 1 LOOK FORWARD 1 SELECT a.* FROM a",
        "the SELECT of an INCREMENTAL JOIN names columns only, and has no FROM",
        "filter in a table that reads this one",
    ),
}


@pytest.mark.parametrize(("words", "problem", "remedy"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_shown_at_its_place(words: str, problem: str, remedy: str) -> None:
    with pytest.raises(FileErrors) as caught:
        declared(f"CREATE TABLE j AS INCREMENTAL {words};{PAYMENTS}")
    (error,) = caught.value.errors
    text = excerpt(error)
    assert problem in text
    assert remedy in text
    assert "\n  shop.sql:1:" in text


def test_a_join_takes_no_mode_and_its_sides_have_to_be_there() -> None:
    with pytest.raises(FileErrors, match=r"\[language.mode_of_join\] an INCREMENTAL JOIN takes no MODE"):
        declared(PAYMENTS.replace("AS\nINC", "MODE APPEND AS\nINC", 1))
    with pytest.raises(FileErrors, match=r"payments reads main\.sepa, which nothing declares"):
        declared(PAYMENTS.replace("CREATE TABLE sepa AS SELECT 1;", ""))


MODEL = """metadata = {
    "materialization": "incremental_join",
    "incremental_join": {
        "a": "lake.bank", "a_time": "process_date", "b": "lake.sepa", "b_time": "process_date",
        "on": ["reference", ["id", "other id"], "a.kind <> @kind"], "how": "left", "look_back": "6 days",
        "look_forward": 10, "start": "2024-03-01", "up_to": "@day", "time": "at", "status": "how_so",
        "suffixes": {"b": "_sepa"},
    },
    "partition_by": "at",
    "tags": "nightly",
}
"""


def model(metadata: str = MODEL, sql: str = "SELECT a.reference, b.amount AS sepa_amount") -> Table:
    folder = Path("models/lake")
    folder.mkdir(parents=True, exist_ok=True)
    Path("tidemill.toml").write_text('name = "bank"\n')
    (folder / "payments.py").write_text(metadata)
    (folder / "payments.sql").write_text(sql)
    for name in ("bank", "sepa"):
        (folder / f"{name}.sql").write_text("SELECT 1 AS reference, DATE '2024-03-01' AS process_date")
    return next(table for table in Workspace.load(".").tables if table.name == "lake.payments")


def test_the_same_words_in_the_metadata_of_a_model() -> None:
    table = model()
    assert table.producer == Join(
        a=JoinSide("lake.bank", "a", "process_date"),
        b=JoinSide("lake.sepa", "b", "process_date"),
        on=Template(("a.`reference` = b.`reference` AND a.`id` = b.`other id` AND a.kind <> ", ""), ("kind",)),
        how=JoinType.LEFT,
        look_back=Duration(6, "day"),
        look_forward=10,
        select=(Template(("a.reference",)), Template(("b.amount AS sepa_amount",))),
        start="2024-03-01",
        up_to=StartVariable("day"),
        time="at",
        status="how_so",
        suffixes=("", "_sepa"),
    )
    assert (table.inputs, table.partition_by, table.tags) == (("lake.bank", "lake.sepa"), ("at",), ("nightly",))
    plain = model(MODEL.replace('["reference", ["id", "other id"], "a.kind <> @kind"]', '"reference"')).producer
    assert isinstance(plain, Join)
    assert plain.on == Template(("a.`reference` = b.`reference`",))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            '"6 days"',
            '"2 months"',
            "[models.varying_length] look_back of 2 months has no fixed length",
        ),
        ('"6 days"', '"six"', "[window.bad_duration] 'six' is not a length of time"),
        ('"left"', '"cross"', "how must be one of inner, left, right, full, left_anti, right_anti, not cross"),
        ('"a": "lake.bank", ', "", "[models.missing_key] incremental_join needs a"),
        ('"@day"', '"@day + 1"', "[models.bad_up_to] up_to cannot be @day + 1"),
        ('"materialization": "incremental_join",', "", "incremental_join is given, and the materialization is table"),
        ('"partition_by": "at"', '"partition_by": "day"', "partition_by names day, which the query does not"),
        ('["id", "other id"]', '["id"]', "[join.bad_keys] id in on is neither a column nor a pair of columns"),
        ('["id", "other id"]', "7", "on[1] must be a text or a list of texts, not 7"),
        ("a.kind <> @kind", "a.day < now()", "[join.clock_inside] the condition reads the clock"),
        ('"how_so"', '"at"', "[join.one_name] two of the join's own columns are called at"),
        ('"b": "_sepa"', '"c": "_sepa"', "suffixes has no key c"),
        ('"tags"', '"null_time": "skip", "tags"', "incremental_join takes no null_time"),
    ],
)
def test_a_mistake_in_metadata_is_reported(old: str, new: str, problem: str) -> None:
    with pytest.raises(FileErrors) as caught:
        model(MODEL.replace(old, new))
    assert problem in "\n".join(str(error) for error in caught.value.errors)


def test_the_query_of_such_a_model_names_columns_only() -> None:
    with pytest.raises(FileErrors) as caught:
        model(sql="SELECT a.* FROM lake.bank AS a")
    assert "[join.bad_select] the query of an incremental join has no FROM" in str(caught.value.errors[0])
    with pytest.raises(FileErrors, match="an incremental join needs its sides"):
        model('metadata = {"materialization": "incremental_join"}')


def test_compile_shows_the_join_of_a_window_and_list_its_sides(cli: Cli) -> None:
    declared(PAYMENTS)
    text = cli("compile", "payments", "shop.sql", "--var", "first=it's").output
    assert r"(a.start > 'it\'s' OR b.kind IN (1, 2))" in text
    assert "coalesce(b.amount, <none>) AS sepa_amount" in text
    assert "FROM (SELECT * FROM main.bank WHERE `process_date` >= <start> - INTERVAL 10 DAYS AND" in text
    assert (
        "LEFT JOIN (SELECT * FROM main.sepa WHERE `process_date` >= <start> - INTERVAL 6 DAYS - INTERVAL 10 DAYS"
        in text
    )
    assert "REPLACE WHERE `target_time` >= <start> AND `target_time` < <end>" in text
    assert "incremental_join  bank, sepa" in cli("list", "shop.sql").output
    assert "payments" in cli("graph", "shop.sql").output


def test_variables_have_to_be_given(cli: Cli) -> None:
    declared(PAYMENTS)
    found = cli("plan", "shop.sql", "--var", "none=0")
    assert "payments needs @day" in found.output
    assert "payments needs @first" in found.output
    assert "@none" not in found.output
    assert found.exit_code == 2
