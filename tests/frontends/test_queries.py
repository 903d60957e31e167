"""What a query reads, what of it is volatile, and what cannot be compared: asked of the SQL, not of its words."""

from __future__ import annotations

import pytest

from tidemill.declarations import Query
from tidemill.errors import ArgumentError
from tidemill.frontends.pipeline.tokens import cut_at_parameters, parameters_of
from tidemill.frontends.sql.scopes import columns_of, inputs_of, output_columns, parse_query
from tidemill.frontends.sql.volatile import reads_clock, sums_of, unrepeatable, volatile_columns
from tidemill.model import FileError

INPUTS = {
    "SELECT * FROM a JOIN s.b USING (id) LEFT ANTI JOIN c.s.d ON true": ("a", "s.b", "c.s.d"),
    "SELECT * FROM A, a, S.a": ("A", "S.a"),
    "WITH x AS (SELECT * FROM raw) SELECT * FROM x JOIN X y": ("raw",),
    "WITH t AS (SELECT * FROM t) SELECT * FROM t": ("t",),
    "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a, b": ("b",),
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r": (),
    "WITH x AS (SELECT 1) SELECT * FROM s.x": ("s.x",),
    "SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) JOIN x": ("x",),
    "WITH x AS (SELECT 1) SELECT * FROM (SELECT * FROM (SELECT * FROM x, y))": ("y",),
    "SELECT /*+ BROADCAST(b), MERGE(c) */ * FROM a b JOIN d c": ("a", "d"),
    "SELECT * FROM t LATERAL VIEW explode(xs) e AS x": ("t",),
    "SELECT * FROM t, LATERAL explode(xs) AS e(x)": ("t",),
    "SELECT * FROM t JOIN LATERAL (SELECT * FROM u WHERE u.a = t.a) l": ("t", "u"),
    "SELECT * FROM range(10) r JOIN explode(array(1)) JOIN stack(1, 2)": (),
    "SELECT * FROM VALUES (1) AS v(a)": (),
    "SELECT * FROM delta.`/x/y` JOIN parquet.`s3://b/c` JOIN json.`a.json` JOIN csv.t": ("csv.t",),
    "SELECT * FROM t VERSION AS OF 3": ("t",),
    "SELECT * FROM t TABLESAMPLE (10 PERCENT)": ("t",),
    "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))": ("t",),
    "SELECT (SELECT max(a) FROM x) FROM y WHERE b IN (SELECT b FROM z) AND EXISTS (SELECT 1 FROM w)": (
        "x",
        "y",
        "z",
        "w",
    ),
    "(SELECT * FROM a) UNION ALL (SELECT * FROM b) EXCEPT SELECT * FROM c": ("a", "b", "c"),
    "FROM a SELECT x WHERE y > 1": ("a",),
    "SELECT * FROM `my table` JOIN `a.b`.`c``d`": ("`my table`", "`a.b`.`c``d`"),
    "SELECT 'FROM z' AS a -- FROM y\nFROM x WHERE t >= @start_dt": ("x",),
    "VALUES (1)": (),
    "VALUES (1) UNION ALL SELECT x FROM t": ("t",),
    "WITH RECURSIVE r AS ((SELECT 1 AS n FROM t UNION ALL SELECT n + 1 FROM R)) SELECT * FROM r": ("t",),
    "WITH c AS (SELECT * FROM t) SELECT * FROM C PIVOT (sum(a) FOR b IN (1, 2)) p": ("t",),
    "WITH q AS (SELECT * FROM u) SELECT * FROM t LATERAL VIEW explode((SELECT xs FROM q JOIN v)) e AS x": (
        *("t", "u", "v"),
    ),
    "SELECT * FROM explode((WITH q AS (SELECT * FROM u) SELECT xs FROM q))": ("u",),
    "WITH a AS (SELECT 1) SELECT * FROM b AS a JOIN a": ("b",),
    "SELECT * FROM (t JOIN u USING (id)) AS x, (v JOIN s.t)": ("t", "u", "v", "s.t"),
}


@pytest.mark.parametrize(("query", "tables"), INPUTS.items())
def test_the_inputs_of_a_query_are_its_tables_and_nothing_else(query, tables):
    assert set(inputs_of(query)) == set(tables)


def test_inputs_are_in_the_order_of_the_query():
    assert inputs_of("SELECT * FROM c JOIN a JOIN b JOIN a") == ("c", "a", "b")


def test_every_place_that_reads_a_table_is_found_and_the_scope_that_it_is_in():
    tree = parse_query("SELECT * FROM t a JOIN t b ON a.x = b.y WHERE EXISTS (SELECT 1 FROM t WHERE x = a.x)")
    assert [table.alias_or_name for table in tree.inputs] == ["a", "b", "t"]
    assert [[each.alias for each in tree.relations(scope)] for scope in tree.scopes] == [["t"], ["a", "b"]]


def test_columns_that_are_used_twice_at_each_level_are_followed_in_no_time():
    levels = [f"c{n} AS (SELECT x || x AS x FROM c{n - 1})" for n in range(1, 60)]
    query = f"WITH c0 AS (SELECT uuid() AS x), {', '.join(levels)} SELECT x FROM c59"
    assert volatile_columns(query) == ("x",)


@pytest.mark.parametrize(
    "query",
    [
        *(
            "SELECT 1 FROM",
            "",
            "not sql at all",
            "SHOW TABLES",
            "SELECT 1; SELECT 2",
            "INSERT INTO x SELECT 1",
            "SELECT '",
        ),
        *("SELECT * FROM IDENTIFIER('a.b')", "SELECT * FROM f(TABLE(t))", "(" * 3000 + "SELECT 1" + ")" * 3000),
    ],
)
def test_what_is_not_known_is_none_and_says_nothing_on_the_terminal(query, capfd, caplog):
    assert inputs_of(query) is None
    assert volatile_columns(query) == ()
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")


VOLATILE = {
    "SELECT a, current_timestamp() AS loaded_at FROM t": ("loaded_at",),
    "SELECT a, current_timestamp AS x, now() AS y, current_date() AS z, curdate() AS w FROM t": ("x", "y", "z", "w"),
    "SELECT uuid() AS a, rand() AS b, rand(7) AS c, randn() AS d, random() AS e FROM t": (*"abcde",),
    "SELECT monotonically_increasing_id() AS a FROM t": ("a",),
    "SELECT unix_timestamp() AS a, unix_timestamp(b) AS b, localtimestamp() AS c, spark_partition_id() AS d FROM t": (
        *"acd",
    ),
    "SELECT date_trunc('day', now()) AS a, concat('x', uuid()) AS b, CAST(now() AS date) + 1 AS c FROM t": (*"abc",),
    "SELECT timestamp 'now' AS a, date 'today' AS b, date '2024-01-01' AS c FROM t": ("a", "b"),
    "SELECT datediff(current_date(), d) AS age, coalesce(a, now()) AS b, if(a > 1, now(), null) AS c FROM t": (),
    "SELECT count(*) + rand() AS a, row_number() OVER (ORDER BY uuid()) AS b, max(now()) AS c FROM t": (),
    "SELECT 1 AS a, 'now()' AS b, current_user() AS c, `current_timestamp()` AS d FROM t": (),
    "WITH c AS (SELECT a, now() AS n FROM t) SELECT a, n AS m, date(n) AS d, datediff(n, a) AS e FROM c": ("m", "d"),
    "WITH c AS (SELECT a, now() AS n FROM t), d AS (SELECT * FROM c) SELECT * FROM d JOIN u": ("n",),
    "WITH C AS (SELECT now() AS N FROM t) SELECT c.n FROM c": ("n",),
    "WITH c(a, b) AS (SELECT x, uuid() FROM t) SELECT b, a FROM c": ("b",),
    "SELECT s.y, s.x FROM (SELECT k, now() FROM t) AS s(x, y)": ("y",),
    "SELECT s.* EXCEPT (n), s.n AS m FROM (SELECT k, now() AS n, uuid() AS u FROM t) s": ("u", "m"),
    "SELECT n FROM (SELECT now() AS n) s JOIN t USING (k)": ("n",),
    "SELECT t.n FROM (SELECT now() AS n) s JOIN t": (),
    "SELECT n FROM t JOIN u": (),
    "SELECT a, now() AS n FROM t UNION ALL SELECT a, now() FROM u": ("n",),
    "SELECT a, now() AS n FROM t UNION ALL SELECT a, NULL FROM u": ("n",),
    "SELECT a, now() AS n FROM t UNION ALL SELECT a, b FROM u": (),
    "SELECT a, now() AS n FROM t UNION ALL BY NAME SELECT now() AS n, a FROM u": ("n",),
    "SELECT *, now() AS n FROM t UNION ALL SELECT *, now() AS n FROM u": ("n",),
    "SELECT *, now() AS n FROM t UNION ALL SELECT * FROM u": (),
    "SELECT *, now() AS n, a FROM t UNION ALL SELECT *, a, now() AS n FROM u": (),
    "SELECT (SELECT now()) AS a, (SELECT max(x) FROM u) AS b, EXISTS (SELECT now()) AS c FROM t": ("a",),
    "SELECT current_timestamp(), uuid(), now(), a FROM t": ("current_timestamp()", "uuid()", "now()"),
    "SELECT CAST(now() AS date), now() + interval 1 day, CAST(n AS date) FROM (SELECT now() AS n)": ("n",),
    "SELECT now() AS a, date(a) AS b": ("a", "b"),
    "SELECT now() AS a, a AS b FROM t": ("a",),
    "SELECT x FROM (SELECT now() AS n, a, b FROM t) PIVOT (max(a) FOR b IN (1 AS x))": (),
    "WITH RECURSIVE r AS (SELECT now() AS n UNION ALL SELECT n FROM r) SELECT * FROM r": (),
    "FROM t SELECT a, now() AS n": ("n",),
}


@pytest.mark.parametrize(("query", "columns"), VOLATILE.items())
def test_volatile_columns_are_those_without_data(query, columns):
    assert volatile_columns(query) == columns


COLUMNS = {
    "SELECT id, t.at, cast(n AS int), s.a.b AS c, s.a.d FROM t": ("id", "at", "n", "c", "d"),
    "WITH c AS (SELECT id, at FROM t) SELECT * FROM c": ("id", "at"),
    "SELECT c.*, 1 AS one FROM (SELECT id FROM t) c": ("id", "one"),
    "SELECT * EXCEPT (x) FROM (SELECT 1 AS x, 2 AS y)": ("y",),
    "SELECT a FROM t UNION ALL SELECT b FROM u": ("a",),
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r": ("n",),
    "SELECT id FROM t LATERAL VIEW explode(xs) e AS x": ("id",),
    "SELECT * FROM t": None,
    "SELECT id, t.* FROM t": None,
    "SELECT id, count(*) FROM t GROUP BY id": None,
    "SELECT id, explode(m) AS (k, v) FROM t": None,
    "SELECT 'a'": None,
    "SELECT * FROM (SELECT id FROM t) PIVOT (count(*) FOR id IN (1, 2))": None,
    "VALUES (1, 2)": None,
    "not a query": None,
}


@pytest.mark.parametrize(("query", "columns"), COLUMNS.items())
def test_the_columns_of_a_query_are_known_unless_only_the_data_can_name_one(query, columns):
    assert output_columns(query) == columns


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("at >= @start_date AND (region = 'x' OR at < current_date())", ("at", "region")),
        ("s.field > 1 AND exists(xs, x -> x > low)", ("s", "xs", "low")),
        ("id IN (SELECT id FROM t)", None),
        ("a = 1; b = 2", None),
        ("a = = 1", None),
    ],
)
def test_the_columns_of_a_condition_are_those_that_it_names(condition, columns):
    assert columns_of(condition) == columns


UNREPEATABLE = {
    "SELECT a, collect_list(b) FROM t GROUP BY a": "collect_list",
    "SELECT a, array_agg(b) FROM t GROUP BY a": "collect_list",
    "SELECT a, collect_set(b) FROM t GROUP BY a": "collect_set",
    "SELECT first(b) FROM t": "first",
    "SELECT first(b, true) FROM t": "first",
    "SELECT last(b) IGNORE NULLS FROM t": "last",
    "SELECT first_value(b) FROM t": "first_value",
    "SELECT any_value(b) FROM t": "any_value",
    "SELECT mode(b) FROM t": "mode",
    "SELECT percentile_approx(b, 0.5) FROM t": "percentile_approx",
    "SELECT listagg(b, ',') FROM t": "listagg",
    "WITH c AS (SELECT a, FIRST(b) AS b FROM t GROUP BY a) SELECT * FROM c": "first",
    "SELECT sort_array(collect_list(b)), array_sort(collect_set(b)), size(collect_set(b)) FROM t": None,
    "SELECT cardinality(collect_set(b)) FROM t": None,
    "SELECT first_value(b) OVER (PARTITION BY a ORDER BY c), last(b) IGNORE NULLS OVER (ORDER BY c) FROM t": None,
    "SELECT first_value(b) OVER (PARTITION BY a) FROM t": "first_value",
    "SELECT listagg(b) WITHIN GROUP (ORDER BY b) FROM t": None,
    "SELECT sum(a), avg(b), count(*), max_by(a, b), min(c) FROM t": None,
    "SELECT `first` FROM t": None,
    "SELECT 1 FROM": None,
}


@pytest.mark.parametrize(("query", "name"), UNREPEATABLE.items())
def test_aggregates_that_cannot_be_compared_are_named(query, name):
    assert unrepeatable(query) == name


SUMS = {
    "SELECT day, SUM(x) AS Total, round(avg(x), 2) AS mean, count(*) AS n, max(x) AS top FROM t GROUP BY 1": (
        "mean",
        "total",
    ),
    "SELECT day, sum(x) FROM t GROUP BY day": ("sum(x)",),
    "SELECT sum(x) OVER (PARTITION BY day) AS running, std(x) AS spread, regr_slope(x, y) AS slope FROM t": (
        "running",
        "slope",
        "spread",
    ),
    "WITH c AS (SELECT day, sum(x) AS s FROM t GROUP BY day) SELECT * FROM c": ("s",),
    "SELECT day, s * 2 AS twice FROM (SELECT day, try_sum(x) AS s FROM t GROUP BY day)": ("s", "twice"),
    "SELECT day, (SELECT sum(x) FROM u) AS whole FROM t": ("sum(x)", "whole"),
    "SELECT day, x FROM t WHERE x > (SELECT 1)": (),
    "SELECT 1 FROM": (),
}


@pytest.mark.parametrize(("query", "columns"), SUMS.items())
def test_columns_made_of_sums_are_followed_by_name(query, columns):
    assert sums_of(query) == columns


def test_the_parameters_of_a_query_are_found_outside_literals_and_comments():
    query = """SELECT '@no', "@no", `@no`, t@v1 -- @no
      FROM t /* @no */ WHERE a>=@start_dt AND b<@END_DATE AND c=@Region AND d = (@Region) AND e = @start_dt"""
    assert parameters_of(query) == ("start_dt", "end_date", "Region")
    assert parameters_of("SELECT 1") == ()


def filled(query: str, literals: dict[str, str]) -> str:
    return Query(*cut_at_parameters(query)).filled(literals)


def test_literals_take_the_place_of_parameters_and_the_rest_stays():
    query = "SELECT '@start_dt'  ,  a FROM t  -- @start_dt\nWHERE a>=@start_dt AND b<@End_Dt;"
    literals = {"start_dt": "TIMESTAMP '2024-01-01T00:00:00Z'", "end_dt": "DATE '2024-02-01'"}
    assert filled(query, literals) == (
        "SELECT '@start_dt'  ,  a FROM t  -- @start_dt\n"
        "WHERE a>=TIMESTAMP '2024-01-01T00:00:00Z' AND b<DATE '2024-02-01';"
    )
    assert filled("SELECT 1", {}) == "SELECT 1"


def test_a_parameter_without_a_value_is_an_error():
    with pytest.raises(ArgumentError) as failure:
        filled("SELECT @region, @day, @region", {"day": "1"})
    assert str(failure.value) == (
        "[variables.missing] The query needs @region. Give it on the command line: --var region=…"
    )


def test_a_query_that_cannot_be_lexed_is_an_error_at_its_place():
    with pytest.raises(FileError) as failure:
        parameters_of("SELECT\n 'abc")
    assert (failure.value.code, str(failure.value.origin)) == ("language.unterminated", "query:2:2")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id, current_timestamp() AS loaded_at FROM t", False),
        ("SELECT id FROM t WHERE day >= current_date()", True),
        ("SELECT datediff(current_date(), day) AS age FROM t", True),
        ("WITH c AS (SELECT id, now() AS n FROM t) SELECT * FROM c", True),
        ("SELECT id FROM t", False),
        ("not a query", True),
    ],
)
def test_a_query_that_reads_the_clock_may_give_other_rows_from_the_same_inputs(query: str, expected: bool) -> None:
    assert reads_clock(query) is expected
