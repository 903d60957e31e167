"""A value is a value: it cannot end a literal, and it is found where the order of places says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.declarations import Merge
from tidemill.frontends.pipeline.files import read_pipelines
from tidemill.model import FileErrors
from tidemill.model.project import Variables

OUT = '\nSOURCE s TYPE CSV PARAMS { "out": "${out}" };'  # shows what `out` is worth here
PLACES = ("given", "project", "SET", "dotenv", "environment", "default")


def outs(pipeline) -> list[object]:
    return [source.params["out"] for source in pipeline.sources]


@pytest.mark.parametrize("first", PLACES)
def test_the_first_place_that_has_a_value_wins(read, first):
    having = PLACES[PLACES.index(first) :]
    text = "SET x = 'SET';\n" if "SET" in having else ""
    text += "SET out = '${x|default}';" if "default" in having else "SET out = '${x}';"
    text += OUT
    places = {place: {"x": place} for place in having if place not in {"SET", "default"}}
    shop = read(text, **places)
    assert outs(shop) == [first]
    assert shop.secrets == ({first} if first in {"dotenv", "environment"} else set())


def test_secrets_asked_for_by_name_come_from_env_only(read):
    shop = read(f"SET out = '${{env:X|none}}';{OUT}", given={"X": "given"}, project={"X": "project"})
    assert (outs(shop), shop.secrets) == (["none"], set())
    text = f"SET X = 'set';\nSET out = '${{env:X}}';{OUT}"
    shop = read(text, dotenv={"X": "dotenv"}, environment={"X": "environment"})
    assert (outs(shop), shop.secrets) == (["dotenv"], {"dotenv"})


def test_an_empty_value_is_a_value_and_no_secret(read):
    text = f"SET out = '[${{x|default}}]';{OUT}\nSET out = '[${{y|}}]';{OUT.replace('SOURCE s', 'SOURCE t')}"
    shop = read(text, environment={"x": ""})
    assert outs(shop) == ["[]", "[]"]
    assert shop.secrets == set()


def test_set_reaches_what_follows_and_included_files_and_back(read):
    shop = read(
        f'SET a = 1;\nINCLUDE "more.sql";\nSET out = "${{a}}-${{b}}";{OUT}\nSET a = 2;\nSET out = "${{a}}";'
        + OUT.replace("SOURCE s", "SOURCE t"),
        files={"more": "SET b = '${a}b';"},
    )
    assert outs(shop) == ["1-1b", "2"]


@pytest.mark.parametrize(
    ("written", "value", "sent"),
    [
        ("SELECT '${x}'", "it's", "SELECT 'it\\'s'"),
        ('SELECT "${x}"', "a\"b'c", 'SELECT "a\\"b\'c"'),
        ("SELECT '${x}'", "a\\", "SELECT 'a\\\\'"),
        ("SELECT '${x}'", "${spark.app.id}", "SELECT '\\u0024{spark.app.id}'"),
        ("SELECT '$${x}'", "{spark.app.id}", "SELECT '$\\u007bspark.app.id}'"),
        ("SELECT '\\\\${x}'", "a'", "SELECT '\\\\a\\''"),
        ("SELECT r'${x}'", "\\d", "SELECT r'\\d'"),
        ("SELECT `${x}`", "a`b", "SELECT `a``b`"),
        ("SELECT ${x}, '${x}'", "main.t", "SELECT main.t, 'main.t'"),
        ("SELECT * FROM raw_${x}.t${x}", "eu", "SELECT * FROM raw_eu.teu"),
        ("SELECT ${x}", "-1.5e3", "SELECT -1.5e3"),
        ("SELECT ${x}", "_a1", "SELECT _a1"),
        ("SELECT 1 -- ${gone}, '${x}\n, /* ${gone} */ ${x}", "2", "SELECT 1 -- ${gone}, '${x}\n, /* ${gone} */ 2"),
        ("SELECT '${x|it's; -- not over}', 1", None, "SELECT 'it\\'s; -- not over', 1"),
        ("SELECT '${ x | a b }'", None, "SELECT ' a b '"),
    ],
)
def test_a_value_enters_a_query_as_what_it_is_there(read, written, value, sent):
    places = {} if value is None else {"given": {"x": value}}
    assert read(f"CREATE TABLE t AS {written};", **places).tables[0].producer.text == sent


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("SELECT ${x}", "1 OR 1"),
        ("SELECT ${x}", "'a'"),
        ("SELECT ${x}", "a;b"),
        ("SELECT ${x}", "a--"),
        ("SELECT ${x}", ""),
        ("SELECT ${x}", "a.b c"),
        ("SELECT ${x}", "1a"),
        ("SELECT 1 -${x}", "-1"),
        ("SELECT a_${x}", "-1"),
        ("SELECT ${x}'\\' AS a'", "r"),
        ("SELECT '\\${x}'", "'"),
        ("SELECT r'${x}'", "it's"),
        ("SELECT r'${x}'", "${y}"),
        ("SELECT `${x}`", "${y}"),
        ("SELECT ${x}", "a\nb"),
        ("SELECT ${x}", "a\n"),
    ],
)
def test_a_value_that_would_be_more_than_a_value_is_refused_without_being_shown(read, written, value):
    with pytest.raises(FileErrors) as failure:
        read(f"CREATE TABLE t AS {written};", environment={"x": value})
    (error,) = failure.value.errors
    assert error.code == "language.unsafe_value"
    assert error.problem == "the value of ${x} cannot stand here"


def write_and_read(text: str, **given_: str):
    Path("shop.sql").write_text(text, encoding="utf-8", newline="")
    return read_pipelines(["shop.sql"], Variables(given=given_, environment={}))[0]


SPECIAL = st.sampled_from(["${", "${a}", "'${x}'", "\\", "--", "NaN", "\\u0024{", "{x}", "$"])
TEXTS = (
    SPECIAL
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.text("'\"`\\${}-;/* \nru0024x", max_size=12)
)


def spark_text(text: str) -> str:
    """Spark also reads these, which sqlglot leaves."""
    return text.replace("\\u0024", "$").replace("\\u007b", "{")


@settings(max_examples=150, deadline=None)
@given(value=TEXTS, quote=st.sampled_from("'\""))
def test_no_value_can_end_a_sql_literal(value, quote):
    query = f"SELECT {quote}a${{x}}b{quote} AS c, 'd'"
    sent = write_and_read(f"CREATE TABLE t AS {query};", x=value).tables[0].producer.text
    tokens = sqlglot.tokenize(sent, read="spark")
    assert [token.token_type.name for token in tokens] == ["SELECT", "STRING", "ALIAS", "VAR", "COMMA", "STRING"]
    assert spark_text(tokens[1].text) == spark_text(f"a{value}b")
    assert "${" not in sent


@settings(max_examples=150, deadline=None)
@given(value=TEXTS)
def test_any_value_comes_out_of_a_json_string_as_it_went_in(value):
    text = 'SOURCE s TYPE CSV PARAMS { "a": "[${x}]", "b": 1 };'
    assert write_and_read(text, x=value).sources[0].params == {"a": f"[{value}]", "b": 1}


@settings(max_examples=100, deadline=None)
@given(value=TEXTS)
def test_any_value_may_be_set_and_compared(value):
    text = "SET y = '${x}';\nSET z = ${x};\nIF ${x} == ${y} THEN SET same = yes; END IF;\n"
    text += 'SOURCE s TYPE CSV PARAMS {"y": "${y}", "z": "${z}", "same": "${same}"};'
    assert write_and_read(text, x=value).sources[0].params == {"y": value, "z": value, "same": "yes"}


def test_json_takes_numbers_and_words_from_variables(read):
    text = 'SOURCE s TYPE CSV PARAMS { "port": ${port|5432}, "header": ${header}, "${key}": null };'
    assert read(text, given={"header": "true", "key": 'a"b'}).sources[0].params == {
        "port": 5432,
        "header": True,
        'a"b': None,
    }


def test_bad_json_after_a_value_is_still_shown_at_its_own_place(errors):
    text = 'SOURCE s TYPE CSV PARAMS {\n  "a": "${x}", "b": "${x}" "c": 1\n};'
    (error,) = errors(text, given={"x": "a much longer\nvalue"})
    assert error.splitlines()[1:] == [
        "  shop.sql:2:28",
        '    2 │   "a": "${x}", "b": "${x}" "c": 1',
        '      │                            ^ names and texts stand in "…", with , between them',
    ]


def test_values_may_name_tables_sources_modes_and_files(read):
    shop = read(
        'INCLUDE "${file}.sql";\nLOAD ${schema}.raw_${x} FROM ${source} MODE ${mode} ON ${key};',
        files={"common": "SOURCE feed TYPE ${kind};"},
        given={"file": "common", "schema": "eu", "x": "orders", "source": "feed"},
        project={"mode": "merge", "key": "id", "kind": "CSV"},
    )
    assert (shop.tables[0].name, shop.tables[0].strategy) == ("eu.raw_orders", Merge(("id",)))


def test_reading_json_values_is_what_json_says(read):
    given_ = {"deep": [1, 2.5, None, {"a": "é\n"}], "empty": "", "no": False}
    assert read(f"SOURCE s TYPE CSV PARAMS {json.dumps(given_)};").sources[0].params == given_
