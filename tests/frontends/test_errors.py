"""Every mistake has a code, its place, its line with a caret, and what to do; all come in one go."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import ArgumentError, Origin
from tidemill.frontends.pipeline.files import read_pipelines
from tidemill.model import FileError, FileErrors, excerpt
from tidemill.model.project import Variables

SOURCES = "SOURCE orders TYPE CSV; SOURCE feed TYPE CSV INCREMENTAL BY at;\n"


def shown(text: str) -> str:
    return text.strip("\n")


def test_a_word_that_starts_no_statement_is_shown_with_the_one_it_looks_like(errors):
    text = "\n" * 6 + "LAOD raw_orders FROM orders MODE MERGE ON order_id;\n"
    assert errors(text) == [
        shown("""
error[language.unknown_statement] no statement starts with LAOD
  shop.sql:7:1
    7 │ LAOD raw_orders FROM orders MODE MERGE ON order_id;
      │ ^^^^ did you mean LOAD?
""")
    ]


ONE_MISTAKE = {
    "a word that is like no statement": (
        "SHOW TABLES;",
        """
error[language.unknown_statement] no statement starts with SHOW
  shop.sql:2:1
    2 │ SHOW TABLES;
      │ ^^^^ statements start with SET, INCLUDE, SOURCE, LOAD, CREATE, EXPORT, IF
""",
    ),
    "MERGE without ON": (
        "LOAD raw FROM orders MODE MERGE;",
        """
error[language.merge_without_keys] MODE MERGE needs ON and the key columns
  shop.sql:2:27
    2 │ LOAD raw FROM orders MODE MERGE;
      │                           ^^^^^ write MERGE ON and the columns that make a row unique
""",
    ),
    "ON without columns": (
        "LOAD raw FROM orders MODE MERGE ON;",
        """
error[language.incomplete] ON needs key columns
  shop.sql:2:35
    2 │ LOAD raw FROM orders MODE MERGE ON;
      │                                   ^ name the columns that make a row unique, with , between them
""",
    ),
    "ON with REPLACE": (
        "LOAD raw FROM orders MODE REPLACE ON id;",
        """
error[language.keys_without_merge] MODE REPLACE takes no ON
  shop.sql:2:35
    2 │ LOAD raw FROM orders MODE REPLACE ON id;
      │                                   ^^ write MERGE ON, or drop the ON and its columns
""",
    ),
    "ON without a mode": (
        "CREATE TABLE t ON id AS SELECT 1;",
        """
error[language.keys_without_merge] MODE REPLACE takes no ON
  shop.sql:2:16
    2 │ CREATE TABLE t ON id AS SELECT 1;
      │                ^^ write MERGE ON, or drop the ON and its columns
""",
    ),
    "a mode that LOAD does not have": (
        "LOAD raw FROM orders MODE UPDATE ON id;",
        """
error[language.unknown_mode] LOAD has no mode UPDATE
  shop.sql:2:27
    2 │ LOAD raw FROM orders MODE UPDATE ON id;
      │                           ^^^^^^ the modes are REPLACE, APPEND, MERGE ON, FULL_MERGE ON
""",
    ),
    "a misspelled mode": (
        "CREATE TABLE t MODE INCREMENTL BY at AS SELECT 1;",
        """
error[language.unknown_mode] CREATE TABLE has no mode INCREMENTL
  shop.sql:2:21
    2 │ CREATE TABLE t MODE INCREMENTL BY at AS SELECT 1;
      │                     ^^^^^^^^^^ did you mean INCREMENTAL? the modes are REPLACE, APPEND, MERGE ON, FULL_MERGE ON, INCREMENTAL_MERGE ON, INCREMENTAL BY
""",  # noqa: E501
    ),
    "an unknown source": (
        "LOAD raw FROM ordrs;",
        """
error[language.unknown_source] no source is called ordrs
  shop.sql:2:15
    2 │ LOAD raw FROM ordrs;
      │               ^^^^^ did you mean orders?
""",
    ),
    "a source like no other": (
        "LOAD raw FROM xyz;",
        """
error[language.unknown_source] no source is called xyz
  shop.sql:2:15
    2 │ LOAD raw FROM xyz;
      │               ^^^ the sources are feed, orders
""",
    ),
    "an export of an unknown table": (
        'LOAD daily FROM orders; EXPORT dayly TO "x" TYPE CSV;',
        """
error[language.unknown_table] no table is called dayly
  shop.sql:2:32
    2 │ LOAD daily FROM orders; EXPORT dayly TO "x" TYPE CSV;
      │                                ^^^^^ did you mean daily?
""",
    ),
    "a table declared twice": (
        "LOAD raw FROM orders;\nCREATE TABLE main.RAW AS SELECT 1;",
        """
error[language.duplicate_name] table main.RAW is declared twice
  shop.sql:3:14
    3 │ CREATE TABLE main.RAW AS SELECT 1;
      │              ^^^^^^^^ the first is at shop.sql:2:6
""",
    ),
    "a source declared twice": (
        "SOURCE Orders TYPE JSON;",
        """
error[language.duplicate_name] source Orders is declared twice
  shop.sql:2:8
    2 │ SOURCE Orders TYPE JSON;
      │        ^^^^^^ the first is at shop.sql:1:8
""",
    ),
    "no ; before the next statement": (
        "LOAD a FROM orders\nLOAD b FROM orders;",
        """
error[language.missing_semicolon] this statement does not end
  shop.sql:2:19
    2 │ LOAD a FROM orders
      │                   ^ write ; here
""",
    ),
    "no ; after a query": (
        "CREATE TABLE a AS\nSELECT CASE WHEN x THEN 1\nELSE 2\nEND\nFROM t -- no end\n\nLOAD b FROM orders;",
        """
error[language.missing_semicolon] this statement does not end
  shop.sql:6:7
    6 │ FROM t -- no end
      │       ^ write ; here
""",
    ),
    "no ; at the end of the file": (
        "CREATE TABLE a AS SELECT 1\n",
        """
error[language.missing_semicolon] this statement does not end
  shop.sql:2:27
    2 │ CREATE TABLE a AS SELECT 1
      │                           ^ write ; here
""",
    ),
    "no ; before END IF": (
        "IF a == a THEN\n  CREATE TABLE a AS SELECT 1\nEND IF;",
        """
error[language.missing_semicolon] this statement does not end
  shop.sql:3:29
    3 │   CREATE TABLE a AS SELECT 1
      │                             ^ write ; here
""",
    ),
    "bad JSON": (
        'SOURCE s TYPE CSV PARAMS {\n  "path": "x"\n  "header": true\n};',
        """
error[language.bad_json] this is not JSON: expecting ',' delimiter
  shop.sql:4:3
    4 │   "header": true
      │   ^ names and texts stand in "…", with , between them
""",
    ),
    "JSON that is not closed": (
        'SOURCE s TYPE CSV PARAMS { "path": "x";',
        """
error[language.bad_json] this is not JSON: expecting ',' delimiter
  shop.sql:2:39
    2 │ SOURCE s TYPE CSV PARAMS { "path": "x";
      │                                       ^ names and texts stand in "…", with , between them
""",
    ),
    "a key twice": (
        'SOURCE s TYPE CSV PARAMS { "a": 1, "b": {"a": 2}, "a": 3 };',
        """
error[language.bad_json] a is given twice
  shop.sql:2:51
    2 │ SOURCE s TYPE CSV PARAMS { "a": 1, "b": {"a": 2}, "a": 3 };
      │                                                   ^^^ keep one of them
""",
    ),
    "no JSON": (
        "SOURCE s TYPE CSV PARAMS path;",
        """
error[language.unexpected] PARAMS needs a JSON object
  shop.sql:2:26
    2 │ SOURCE s TYPE CSV PARAMS path;
      │                          ^^^^ write PARAMS { "name": "value" }
""",
    ),
    "a missing variable": (
        "LOAD raw_${region} FROM orders;",
        """
error[language.missing_variable] ${region} has no value
  shop.sql:2:10
    2 │ LOAD raw_${region} FROM orders;
      │          ^^^^^^^^^ give it with --var region=… or under [vars] in tidemill.toml, or write ${region|default}
""",
    ),
    "a missing secret": (
        'SOURCE s TYPE CSV PARAMS {\n  "password": "${env:PASSWORD}"\n};',
        """
error[language.missing_variable] ${env:PASSWORD} has no value
  shop.sql:3:16
    3 │   "password": "${env:PASSWORD}"
      │                ^^^^^^^^^^^^^^^ set PASSWORD in .env or in the environment, or write ${env:PASSWORD|default}
""",
    ),
    "a value that is more than a value": (
        "CREATE TABLE t AS SELECT ${x|1; DROP TABLE t};",
        """
error[language.unsafe_value] the value of ${x} cannot stand here
  shop.sql:2:26
    2 │ CREATE TABLE t AS SELECT ${x|1; DROP TABLE t};
      │                          ^^^^^^^^^^^^^^^^^^^^ here it must be an identifier, a number or a dotted name; inside a string literal it may be any text
""",  # noqa: E501
    ),
    "a variable that is none": (
        "CREATE TABLE t AS SELECT '${not a name}';",
        """
error[language.bad_variable] this is no variable
  shop.sql:2:27
    2 │ CREATE TABLE t AS SELECT '${not a name}';
      │                           ^^ write ${name}, ${name|default}, ${env:NAME} or ${env:NAME|default}, closed on the same line
""",  # noqa: E501
    ),
    "an IF without END IF": (
        "IF a == b THEN\n  LOAD raw FROM orders;\nELSE\n  LOAD raw FROM feed;",
        """
error[language.if_without_end] this IF has no END IF
  shop.sql:2:1
    2 │ IF a == b THEN
      │ ^^ write END IF; after it
""",
    ),
    "an END IF without IF": (
        "END IF;",
        """
error[language.no_open_if] no IF is open for this END
  shop.sql:2:1
    2 │ END IF;
      │ ^^^ remove it, or write an IF
""",
    ),
    "two ELSE": (
        "IF a == b THEN ELSE ELSE END IF;",
        """
error[language.unexpected] this IF has an ELSE already
  shop.sql:2:21
    2 │ IF a == b THEN ELSE ELSE END IF;
      │                     ^^^^ nothing but END IF; can follow it
""",
    ),
    "a condition with =": (
        'IF ${env|dev} = "prod" THEN LOAD t FROM orders; END IF;',
        """
error[language.unexpected] a condition compares with == or !=
  shop.sql:2:15
    2 │ IF ${env|dev} = "prod" THEN LOAD t FROM orders; END IF;
      │               ^ write IF ${name} == "value" THEN
""",
    ),
    "a FULL_MERGE of an INCREMENTAL source": (
        "LOAD raw FROM feed MODE FULL_MERGE ON id;",
        """
error[language.full_merge_of_incremental] FULL_MERGE reads its whole source, and feed is INCREMENTAL BY at
  shop.sql:2:25
    2 │ LOAD raw FROM feed MODE FULL_MERGE ON id;
      │                         ^^^^^^^^^^ use MERGE ON, or drop INCREMENTAL BY from the source
""",
    ),
    "an unknown option": (
        'LOAD raw FROM orders OPTIONS {\n  "dedup_orderby": "at"\n};',
        """
error[language.unknown_option] LOAD has no option dedup_orderby
  shop.sql:3:3
    3 │   "dedup_orderby": "at"
      │   ^^^^^^^^^^^^^^^ did you mean dedup_order_by?
""",
    ),
    "an option of the wrong type": (
        'LOAD raw FROM orders OPTIONS { "max_shrink": "10%" };',
        """
error[language.bad_option] max_shrink must be a share from 0 to 1, such as 0.1
  shop.sql:2:32
    2 │ LOAD raw FROM orders OPTIONS { "max_shrink": "10%" };
      │                                ^^^^^^^^^^^^ correct it
""",
    ),
    "an option with a value that is not one": (
        'CREATE TABLE t OPTIONS { "on_schema_change": "explode" } AS SELECT 1;',
        """
error[language.bad_option] on_schema_change must be one of fail, ignore, append_new_columns, sync_all_columns
  shop.sql:2:26
    2 │ CREATE TABLE t OPTIONS { "on_schema_change": "explode" } AS SELECT 1;
      │                          ^^^^^^^^^^^^^^^^^^ correct it
""",
    ),
    "a lookback in no unit": (
        "SOURCE s TYPE CSV INCREMENTAL BY at LOOKBACK 2 HUORS;",
        """
error[language.bad_lookback] HUORS is no unit of time
  shop.sql:2:48
    2 │ SOURCE s TYPE CSV INCREMENTAL BY at LOOKBACK 2 HUORS;
      │                                                ^^^^^ did you mean HOURS?
""",
    ),
    "a lookback in an unknown unit": (
        "CREATE TABLE t MODE INCREMENTAL BY at LOOKBACK 2 fortnights AS SELECT 1;",
        """
error[language.bad_lookback] fortnights is no unit of time
  shop.sql:2:50
    2 │ CREATE TABLE t MODE INCREMENTAL BY at LOOKBACK 2 fortnights AS SELECT 1;
      │                                                  ^^^^^^^^^^ the units are SECONDS, MINUTES, HOURS, DAYS, WEEKS, MONTHS, YEARS
""",  # noqa: E501
    ),
    "a file that is not there": (
        'INCLUDE "shp.sql";',
        """
error[language.missing_file] there is no file shp.sql
  shop.sql:2:9
    2 │ INCLUDE "shp.sql";
      │         ^^^^^^^^^ did you mean shop.sql?
""",
    ),
    "a file that includes itself": (
        'INCLUDE "shop.sql";',
        """
error[language.circular_include] files include each other: shop.sql → shop.sql
  shop.sql:2:9
    2 │ INCLUDE "shop.sql";
      │         ^^^^^^^^^^ remove this INCLUDE
""",
    ),
    "a string that is not closed": (
        "LOAD a FROM orders;\nSET x = 'abc;\nLOAD b FROM orders;",
        """
error[language.unterminated] this string is not closed
  shop.sql:3:9
    3 │ SET x = 'abc;
      │         ^ close it with '
""",
    ),
    "a string that is not closed, with others after it": (
        "SET x = 'abc;\nSET y = 'def';\nLAOD b FROM orders MODE 'y';",
        """
error[language.unterminated] this string is not closed
  shop.sql:2:9
    2 │ SET x = 'abc;
      │         ^ close it with '
""",
    ),
    "a literal that is none": (
        "LOAD a FROM orders;\nCREATE TABLE t AS SELECT x'zz';\nLAOD;",
        """
error[language.unreadable] this line cannot be read
  shop.sql:3:1
    3 │ CREATE TABLE t AS SELECT x'zz';
      │ ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ look for a quote that is not closed
""",
    ),
    "a comment that is not closed": (
        "LOAD a FROM orders; /* to do\nLAOD b FROM orders;",
        """
error[language.unterminated] this comment is not closed
  shop.sql:2:21
    2 │ LOAD a FROM orders; /* to do
      │                     ^^ close it with */
""",
    ),
    "a misspelled clause": (
        "LOAD a FROM orders\n  MOED APPEND;",
        """
error[language.unexpected] MOED does not belong here
  shop.sql:3:3
    3 │   MOED APPEND;
      │   ^^^^ did you mean MODE?
""",
    ),
    "a word too much": (
        "LOAD a FROM orders now;",
        """
error[language.unexpected] now does not belong here
  shop.sql:2:20
    2 │ LOAD a FROM orders now;
      │                    ^^^ here MODE, OPTIONS or ; can stand
""",
    ),
    "a query that is none": (
        "CREATE TABLE t AS SELCT 1;",
        """
error[language.not_a_query] no query starts with SELCT
  shop.sql:2:19
    2 │ CREATE TABLE t AS SELCT 1;
      │                   ^^^^^ did you mean SELECT?
""",
    ),
    "a table without a query": (
        "CREATE TABLE t (a INT);",
        """
error[language.unexpected] CREATE TABLE needs AS and a query
  shop.sql:2:16
    2 │ CREATE TABLE t (a INT);
      │                ^ write AS and a query
""",
    ),
    "something else than a table": (
        "CREATE VIEW v AS SELECT 1;",
        """
error[language.unexpected] CREATE needs TABLE
  shop.sql:2:8
    2 │ CREATE VIEW v AS SELECT 1;
      │        ^^^^ write CREATE TABLE name AS SELECT …; or CREATE MATERIALIZED VIEW name AS SELECT …;
""",
    ),
    "a table without a name": (
        "LOAD FROM orders;",
        """
error[language.unexpected] LOAD needs the name of a table
  shop.sql:2:6
    2 │ LOAD FROM orders;
      │      ^^^^ write LOAD raw_orders FROM orders;
""",
    ),
    "a name that cannot be a folder": (
        "LOAD `../up` FROM orders;",
        """
error[language.bad_name] ../up cannot be a name here
  shop.sql:2:6
    2 │ LOAD `../up` FROM orders;
      │      ^^^^^^^ name it table or schema.table, in letters, digits and _
""",
    ),
    "an export without a place": (
        "EXPORT SELECT 1;",
        """
error[language.incomplete] EXPORT needs TO and a place
  shop.sql:2:16
    2 │ EXPORT SELECT 1;
      │                ^ write TO "out/daily" TYPE PARQUET
""",
    ),
    "a merge into CSV files": (
        'EXPORT SELECT 1 AS id TO "x" TYPE CSV MODE MERGE ON id;',
        """
error[language.mode_of_kind] CSV files cannot be merged into
  shop.sql:2:44
    2 │ EXPORT SELECT 1 AS id TO "x" TYPE CSV MODE MERGE ON id;
      │                                            ^^^^^ use MODE REPLACE or APPEND, or TYPE PARQUET, DELTA or JDBC
""",
    ),
    "a key twice in a merge": (
        "LOAD a FROM orders MODE MERGE ON id, ID;",
        """
error[language.repeated_key] a column is named twice
  shop.sql:2:34
    2 │ LOAD a FROM orders MODE MERGE ON id, ID;
      │                                  ^^^^^^ name each once
""",
    ),
    "two modes": (
        "LOAD a FROM orders MODE APPEND MODE REPLACE;",
        """
error[language.repeated_clause] MODE is given twice
  shop.sql:2:32
    2 │ LOAD a FROM orders MODE APPEND MODE REPLACE;
      │                                ^^^^ keep one of them
""",
    ),
    "two cursors": (
        'SOURCE s TYPE CSV PARAMS { "cursor_field": "a" } INCREMENTAL BY b;',
        """
error[language.two_cursors] the cursor is a here and b after INCREMENTAL BY
  shop.sql:2:28
    2 │ SOURCE s TYPE CSV PARAMS { "cursor_field": "a" } INCREMENTAL BY b;
      │                            ^^^^^^^^^^^^^^ keep one of them
""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_one_mistake_is_one_error(errors, text, expected):
    assert errors(SOURCES + text) == [shown(expected)]


def test_all_errors_of_all_files_come_in_one_go_in_the_order_of_lines(errors):
    text = """\
LAOD raw FROM orders;
SOURCE orders TYPE CSV PARAMS { "path": };
LOAD raw FROM orders MODE MERGE;
INCLUDE "common.sql";
CREATE TABLE t AS SELECT '${a}', ${b};
IF ${c} == 1 THEN
  LOAD raw FROM orders
    MODE INCREMENTAL BY x;
END IF;
EXPORT nothing TO "x" TYPE CSV;
"""
    common = 'SET x 1;\nLOAD more FROM ordrs;\nINCLUDE "shop.sql";\n'
    codes = [
        error.splitlines()[0].split("]")[0] + " " + error.splitlines()[1].strip()
        for error in errors(text, files={"common": common})
    ]
    assert codes == [
        "error[language.unknown_statement shop.sql:1:1",
        "error[language.bad_json shop.sql:2:41",
        "error[language.merge_without_keys shop.sql:3:27",
        "error[language.missing_variable shop.sql:5:27",
        "error[language.missing_variable shop.sql:5:34",
        "error[language.missing_variable shop.sql:6:4",
        "error[language.unknown_mode shop.sql:8:10",
        "error[language.unknown_table shop.sql:10:8",
        "error[language.unexpected common.sql:1:7",
        "error[language.unknown_source common.sql:2:16",
        "error[language.circular_include common.sql:3:9",
    ]


def test_a_group_of_errors_reads_as_a_terminal_shows_it(read):
    with pytest.raises(FileErrors) as failure:
        read("LAOD a FROM b;\nLOAD c FROM d MODE MERGE;")
    assert isinstance(failure.value, ArgumentError)
    assert (failure.value.code, failure.value.problem, failure.value.remedy) == (
        *("files.errors", "2 errors", "nothing was run"),
    )
    assert failure.value.origin == Origin("shop.sql", 1, 1)
    assert str(failure.value).splitlines()[-1] == "2 errors · nothing was run"
    assert str(failure.value.errors[0]) == (
        "shop.sql:1:1: [language.unknown_statement] no statement starts with LAOD: did you mean LOAD?"
    )


def test_what_could_not_be_read_makes_no_second_error(errors):
    """A name may be declared in the file or the part that could not be read."""
    assert len(errors('INCLUDE "gone.sql"; LOAD a FROM s; EXPORT b TO "x" TYPE CSV;')) == 1
    assert len(errors('LOAD a FROM s; SOURCE s TYPE CSV PARAMS {"path": \'x};')) == 1
    assert len(errors('SOURCE s TYPE CSV PARAMS {"path": }; LOAD a FROM s;')) == 1
    assert len(errors("SOURCE ${name} TYPE ${kind|csv}; ")) == 1


def test_a_branch_that_is_not_taken_is_still_checked(errors):
    (error,) = errors("IF a == b THEN\n  LOAD t FROM x MODE MERG ON id;\nEND IF;")
    assert "error[language.unknown_mode] LOAD has no mode MERG" in error


def test_two_pipelines_may_not_declare_one_table_and_may_share_sources():
    Path("common.sql").write_text("SOURCE s TYPE CSV;")
    Path("a.sql").write_text('INCLUDE "common.sql";\nLOAD t FROM s;')
    Path("b.sql").write_text('INCLUDE "common.sql";\nLOAD u FROM s;\nEXPORT t TO "x" TYPE CSV;')
    assert [each.pipeline for each in read_pipelines(["a.sql", "b.sql"])] == ["a", "b"]
    Path("b.sql").write_text('INCLUDE "common.sql";\n\nLOAD T FROM s;')
    with pytest.raises(FileErrors) as failure:
        read_pipelines(["a.sql", "b.sql"])
    assert [excerpt(error) for error in failure.value.errors] == [
        shown("""
error[language.duplicate_name] table T is declared twice
  b.sql:3:6
    3 │ LOAD T FROM s;
      │      ^ the first is at a.sql:2:6; several LOADs of one table have to be in one file
""")
    ]


def test_a_table_in_a_shared_file_belongs_to_one_pipeline():
    Path("common.sql").write_text("CREATE TABLE t AS SELECT 1;\nLAOD x;")
    for name in ("a.sql", "b.sql"):
        Path(name).write_text('INCLUDE "common.sql";')
    with pytest.raises(FileErrors) as failure:
        read_pipelines(["a.sql", "b.sql"])
    assert [(error.code, error.remedy) for error in failure.value.errors] == [
        ("language.duplicate_name", "two pipelines include it: declare it in one of them"),
        ("language.unknown_statement", "did you mean LOAD?"),
    ]


def test_an_export_may_name_tables_that_are_known_from_elsewhere(read):
    assert read('EXPORT outside TO "x" TYPE CSV;', known={"main.outside"}).exports[0].inputs == ("main.outside",)


def test_a_pipeline_that_is_not_there_says_which_are():
    Path("shop.sql").write_text("")
    with pytest.raises(FileErrors) as failure:
        read_pipelines(["shp.sql"])
    assert [excerpt(error) for error in failure.value.errors] == [
        "error[language.missing_file] there is no file shp.sql\n  did you mean shop.sql?"
    ]


def test_a_file_that_is_no_text_is_said_to_be_none():
    Path("shop.sql").write_bytes(b"SET a = '\xff\xfe';")
    with pytest.raises(FileErrors) as failure:
        read_pipelines(["shop.sql"])
    assert [(error.code, error.problem) for error in failure.value.errors] == [
        ("language.not_text", "shop.sql is not UTF-8 text")
    ]


def test_errors_hold_no_secrets(read):
    text = 'SOURCE orders TYPE CSV;\nSET s = "${env:SECRET}";\nLOAD a FROM ${s};\nLOAD b FROM orders MODE ${s};'
    with pytest.raises(FileErrors) as failure:
        read(text, environment={"SECRET": "hunter2"})
    assert "hunter2" not in f"{failure.value} {failure.value!r} {[error.args for error in failure.value.errors]}"
    assert "no source is called ***" in str(failure.value)


def test_carets_stand_under_the_word_also_after_tabs_and_wide_letters(errors):
    assert errors("\t/* 日本 */ LAOD x;") == [
        shown("""
error[language.unknown_statement] no statement starts with LAOD
  shop.sql:1:11
    1 │  /* 日本 */ LAOD x;
      │             ^^^^ did you mean LOAD?
""")
    ]


def test_a_long_line_is_shown_around_the_word(errors):
    (error,) = errors(f"CREATE TABLE t AS SELECT {'a, ' * 100}${{b}}{', c' * 100};")
    line, caret = error.splitlines()[2:4]
    assert len(line) < 130
    assert line[caret.index("^") : caret.rindex("^") + 1] == "${b}"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "'",
            '"',
            "`",
            "/*",
            "/* /*",
            "{",
            "}",
            "(",
            "IF",
            "ELSE",
            "END",
            "IF a == b THEN",
            "SET",
            "SET a",
            "SET a =",
        ),
        *(
            "SOURCE",
            "SOURCE a",
            "SOURCE a TYPE",
            "SOURCE a TYPE CSV PARAMS",
            "SOURCE a TYPE CSV PARAMS {",
            "LOAD",
            "LOAD a",
        ),
        *(
            "LOAD a FROM",
            "LOAD a FROM b MODE",
            "LOAD a FROM b MODE MERGE ON",
            "LOAD a FROM b OPTIONS {",
            "CREATE",
            "EXPORT",
        ),
        *(
            "CREATE OR",
            "CREATE TABLE",
            "CREATE TABLE a",
            "CREATE TABLE a AS",
            "CREATE TABLE a AS SELECT",
            "EXPORT a",
            "INCLUDE",
        ),
        *(
            "EXPORT a TO",
            "EXPORT a TO 'x",
            "EXPORT a TO 'x'",
            "EXPORT a TO 'x' TYPE",
            "${",
            "${}",
            "'${'",
            "${a|${b}}",
            "\x00",
        ),
        *(
            "SET a = 'x\\",
            "1",
            "@",
            "\\",
            "IF ${a|1} == ",
            "IF a == b THEN ELSE ELSE",
            "ELSEIF",
            "LOAD a.b.c FROM d;",
            "r'",
        ),
    ],
)
def test_odd_texts_give_errors_and_no_surprise(errors, text):
    assert all(error.startswith("error[language.") for error in errors(text))


def test_reading_needs_no_variables_argument():
    Path("shop.sql").write_text('SET a = 1; SOURCE s TYPE CSV PARAMS {"a": ${a}};')
    assert read_pipelines(["shop.sql"])[0].sources[0].params == {"a": 1}


PIECES = st.sampled_from(
    [
        *(
            "SET",
            "INCLUDE",
            "SOURCE",
            "LOAD",
            "CREATE TABLE",
            "EXPORT",
            "IF",
            "ELSE",
            "ELSE IF",
            "END IF",
            "THEN",
            "AS",
        ),
        *("SELECT", "FROM", "TO", "TYPE", "MODE", "MERGE", "ON", "OPTIONS", "PARAMS", "LOOKBACK", "INCREMENTAL", "BY"),
        *(
            "a",
            "b.c",
            "`d`",
            "'e'",
            '"f"',
            "1",
            "-",
            ";",
            ";",
            ",",
            "(",
            ")",
            "{",
            "}",
            '{"a": 1}',
            ":",
            "==",
            "=",
            "@x",
        ),
        *("${a}", "${env:b|1}", "'${c|d}'", "${", "--", "/*", "*/", "\n", "\n", "\\", "r'", "CASE", "END", "$", "é"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=30), given_=st.dictionaries(st.sampled_from("abcd"), st.text(max_size=5)))
def test_any_text_is_a_pipeline_or_errors_at_places_in_it(pieces, given_):
    text = " ".join(pieces)
    Path("any.sql").write_text(text, encoding="utf-8", newline="")
    try:
        read_pipelines(["any.sql"], Variables(given=given_, environment={}))
    except FileErrors as failure:
        for error in failure.errors:
            line = text.split("\n")[error.origin.line - 1]
            if isinstance(error, FileError):
                assert excerpt(error).startswith("error[language.")
                assert line == error.line
            else:  # a declaration has found it in itself
                assert excerpt(error).startswith(f"error[{error.code}]")
            assert 1 <= error.origin.column <= len(error.line) + 1
