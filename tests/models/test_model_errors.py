"""Every mistake in a model has a code, its place, its line with a caret, and what to do; all come in one go."""

from __future__ import annotations

import pytest

from tidemill.api.workspace import Workspace
from tidemill.model import FileErrors, excerpt


def shown(text: str) -> str:
    return text.strip("\n")


METADATA = {
    "metadata that is no dict": (
        '["merge"]',
        """
error[models.wrong_type] metadata must be a dict, not a list
  models/my_schema/orders.py:1:1
    1 │ metadata = ["merge"]
      │ ^^^^^^^^ write metadata = { … }
""",
    ),
    "an unknown key": (
        '{"materialisation": "view"}',
        """
error[models.unknown_key] metadata has no key materialisation
  models/my_schema/orders.py:1:13
    1 │ metadata = {"materialisation": "view"}
      │             ^^^^^^^^^^^^^^^^^ did you mean materialization?
""",
    ),
    "an unknown key like no other": (
        '{"severity": "warn"}',
        """
error[models.unknown_key] metadata has no key severity
  models/my_schema/orders.py:1:13
    1 │ metadata = {"severity": "warn"}
      │             ^^^^^^^^^^ the keys are description, materialization, refresh, refresh_check, incremental, incremental_join, tags, partition_by, cluster_by, format, on_schema_change, null_time, only_newer, dedup_order_by, max_shrink, kept_rows, volatile, reads, reset_allowed, checks
""",  # noqa: E501
    ),
    "an unknown key in a strategy": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unqiue_key": "id",
}}}""",
        """
error[models.unknown_key] merge has no key unqiue_key
  models/my_schema/orders.py:2:5
    2 │     "unqiue_key": "id",
      │     ^^^^^^^^^^^^ did you mean unique_key?
""",
    ),
    "a number for a text": (
        '{"description": 5}',
        """
error[models.wrong_type] description must be a text, not 5
  models/my_schema/orders.py:1:13
    1 │ metadata = {"description": 5}
      │             ^^^^^^^^^^^^^ write "description": "…"
""",
    ),
    "a dict for names": (
        '{"tags": {"a": 1}}',
        """
error[models.wrong_type] tags must be a text or a list of texts, not a dict
  models/my_schema/orders.py:1:13
    1 │ metadata = {"tags": {"a": 1}}
      │             ^^^^^^ write "tags": "…"
""",
    ),
    "something else in a list": (
        '{"tags": ["a", None]}',
        """
error[models.wrong_type] tags[1] must be a text, not None
  models/my_schema/orders.py:1:27
    1 │ metadata = {"tags": ["a", None]}
      │                           ^^^^ write "…"
""",
    ),
    "a text for yes or no": (
        '{"reset_allowed": "no"}',
        """
error[models.wrong_type] reset_allowed must be true or false, not 'no'
  models/my_schema/orders.py:1:13
    1 │ metadata = {"reset_allowed": "no"}
      │             ^^^^^^^^^^^^^^^ write "reset_allowed": true or false
""",
    ),
    "yes or no for a number": (
        '{"max_shrink": True}',
        """
error[models.wrong_type] max_shrink must be a number, not True
  models/my_schema/orders.py:1:13
    1 │ metadata = {"max_shrink": True}
      │             ^^^^^^^^^^^^ write "max_shrink": 0.1
""",
    ),
    "an unknown word for kept rows": (
        '{"kept_rows": "intnded"}',
        """
error[models.unknown_value] kept_rows must be one of intended, not intnded
  models/my_schema/orders.py:1:13
    1 │ metadata = {"kept_rows": "intnded"}
      │             ^^^^^^^^^^^ did you mean intended?
""",
    ),
    "kept rows of a table that keeps none": (
        '{"kept_rows": "intended"}',
        """
error[models.misplaced_key] a table takes no kept_rows
  models/my_schema/orders.py:1:13
    1 │ metadata = {"kept_rows": "intended"}
      │             ^^^^^^^^^^^ it is for merge
""",
    ),
    "a time column for full_merge": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "full_merge", "full_merge": {
    "unique_key": "id", "time_column": "updated_at",
}}}""",
        """
error[models.unknown_key] full_merge has no key time_column
  models/my_schema/orders.py:2:25
    2 │     "unique_key": "id", "time_column": "updated_at",
      │                         ^^^^^^^^^^^^^ the keys are unique_key, dedup_order_by, max_shrink
""",
    ),
    "a class for a text": (
        '{"description": object}',
        """
error[models.wrong_type] description must be a text, not a type
  models/my_schema/orders.py:1:13
    1 │ metadata = {"description": object}
      │             ^^^^^^^^^^^^^ write "description": "…"
""",
    ),
    "a number for a word": (
        '{"materialization": 1}',
        """
error[models.wrong_type] materialization must be one of table, view, materialized_view, incremental, incremental_join, not 1
  models/my_schema/orders.py:1:13
    1 │ metadata = {"materialization": 1}
      │             ^^^^^^^^^^^^^^^^^ write "materialization": "table"
""",  # noqa: E501
    ),
    "an empty text": (
        '{"partition_by": ""}',
        """
error[models.wrong_type] partition_by is empty
  models/my_schema/orders.py:1:13
    1 │ metadata = {"partition_by": ""}
      │             ^^^^^^^^^^^^^^ write a text, or leave it out
""",
    ),
    "an empty list": (
        '{"partition_by": []}',
        """
error[models.wrong_type] partition_by is an empty list
  models/my_schema/orders.py:1:13
    1 │ metadata = {"partition_by": []}
      │             ^^^^^^^^^^^^^^ write at least one
""",
    ),
    "an unknown materialization": (
        '{"materialization": "veiw"}',
        """
error[models.unknown_value] materialization must be one of table, view, materialized_view, incremental, incremental_join, not veiw
  models/my_schema/orders.py:1:13
    1 │ metadata = {"materialization": "veiw"}
      │             ^^^^^^^^^^^^^^^^^ did you mean view?
""",  # noqa: E501
    ),
    "an unknown materialization like no other": (
        '{"materialization": "cube"}',
        """
error[models.unknown_value] materialization must be one of table, view, materialized_view, incremental, incremental_join, not cube
  models/my_schema/orders.py:1:13
    1 │ metadata = {"materialization": "cube"}
      │             ^^^^^^^^^^^^^^^^^ use one of them
""",  # noqa: E501
    ),
    "an unknown strategy": (
        """\
{"materialization": "incremental",
"incremental": {"strategy": "mrege", "merge": {"unique_key": "id"}}}""",
        """
error[models.unknown_value] strategy must be one of append, merge, full_merge, delete_insert, not mrege
  models/my_schema/orders.py:2:17
    2 │ "incremental": {"strategy": "mrege", "merge": {"unique_key": "id"}}}
      │                 ^^^^^^^^^^ did you mean merge?
""",
    ),
    "an unknown schema policy": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": "id",
}},
    "on_schema_change": "sync",}""",
        """
error[models.unknown_value] on_schema_change must be one of fail, ignore, append_new_columns, sync_all_columns, not sync
  models/my_schema/orders.py:4:5
    4 │     "on_schema_change": "sync",}
      │     ^^^^^^^^^^^^^^^^^^ use one of them
""",
    ),
    "an unknown null_time": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "created_at", "null_time": "keep",
}}}""",
        """
error[models.unknown_value] null_time must be one of fail, include, skip, not keep
  models/my_schema/orders.py:2:34
    2 │     "time_column": "created_at", "null_time": "keep",
      │                                  ^^^^^^^^^^^ use one of them
""",
    ),
    "incremental without a strategy": (
        '{"materialization": "incremental"}',
        """
error[models.missing_key] an incremental model needs a strategy
  models/my_schema/orders.py:1:13
    1 │ metadata = {"materialization": "incremental"}
      │             ^^^^^^^^^^^^^^^^^ write "incremental": {"strategy": "merge", "merge": { … }} beside it
""",
    ),
    "a strategy that is not named": (
        '{"materialization": "incremental", "incremental": {"merge": {"unique_key": "id"}}}',
        """
error[models.missing_key] incremental needs strategy
  models/my_schema/orders.py:1:47
    1 │ metadata = {"materialization": "incremental", "incremental": {"merge": {"unique_key": "id"}}}
      │                                               ^^^^^^^^^^^^^ write "strategy": "append"
""",
    ),
    "a strategy without its settings": (
        """\
{"materialization": "incremental",
"incremental": {"strategy": "merge", "append": {"time_column": "created_at"}}}""",
        """
error[models.missing_key] merge needs its settings
  models/my_schema/orders.py:2:17
    2 │ "incremental": {"strategy": "merge", "append": {"time_column": "created_at"}}}
      │                 ^^^^^^^^^^ write "merge": { … } beside it
""",
    ),
    "a strategy for a table": (
        """\
{
"incremental": {"strategy": "append", "append": {"time_column": "created_at"}}}""",
        """
error[models.misplaced_key] incremental is given, and the materialization is table
  models/my_schema/orders.py:2:1
    2 │ "incremental": {"strategy": "append", "append": {"time_column": "created_at"}}}
      │ ^^^^^^^^^^^^^ write "materialization": "incremental"
""",
    ),
    "a merge without keys": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "time_column": "updated_at",
}}}""",
        """
error[models.missing_key] merge needs unique_key
  models/my_schema/orders.py:1:84
    1 │ metadata = {"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
      │                                                                                    ^^^^^^^ write "unique_key": "…"
""",  # noqa: E501
    ),
    "an append without a time column": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "lookback": "1 day",
}}}""",
        """
error[models.missing_key] append needs time_column
  models/my_schema/orders.py:1:85
    1 │ metadata = {"materialization": "incremental", "incremental": {"strategy": "append", "append": {
      │                                                                                     ^^^^^^^^ write "time_column": "…"
""",  # noqa: E501
    ),
    "a delete_insert without a condition": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert": {
}}}""",
        """
error[models.missing_key] delete_insert needs where_condition or time_column
  models/my_schema/orders.py:1:92
    1 │ metadata = {"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert": {
      │                                                                                            ^^^^^^^^^^^^^^^ write "where_condition": "day >= @start_date"
""",  # noqa: E501
    ),
    "a key column twice": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": ["id", "ID"],
}}}""",
        """
error[merge.repeated_key] a key column is named twice: id, ID
  models/my_schema/orders.py:2:5
    2 │     "unique_key": ["id", "ID"],
      │     ^^^^^^^^^^^^ name each key column once
""",
    ),
    "a lookback in unknown units": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": "id", "time_column": "updated_at", "lookback": "3 fortnights",
}}}""",
        """
error[window.bad_duration] '3 fortnights' is not a length of time
  models/my_schema/orders.py:2:54
    2 │     "unique_key": "id", "time_column": "updated_at", "lookback": "3 fortnights",
      │                                                      ^^^^^^^^^^ write a whole number and a unit, such as "3 hours": seconds, minutes, hours, days, weeks, months, years
""",  # noqa: E501
    ),
    "a lookback that looks ahead": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": "id", "time_column": "id", "lookback": -3,
}}}""",
        """
error[models.bad_lookback] a lookback of -3 looks ahead
  models/my_schema/orders.py:2:46
    2 │     "unique_key": "id", "time_column": "id", "lookback": -3,
      │                                              ^^^^^^^^^^ write it without -
""",
    ),
    "a lookback without a time column": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": "id", "lookback": "1 day",
}}}""",
        """
error[models.missing_key] lookback needs time_column
  models/my_schema/orders.py:2:25
    2 │     "unique_key": "id", "lookback": "1 day",
      │                         ^^^^^^^^^^ write "time_column": "…"
""",
    ),
    "a start that is no date": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "created_at", "start_date": "2024-13-01",
}}}""",
        """
error[models.bad_start] start_date cannot be 2024-13-01
  models/my_schema/orders.py:2:34
    2 │     "time_column": "created_at", "start_date": "2024-13-01",
      │                                  ^^^^^^^^^^^^ write "2024-01-31", "2024-01-31T10:30:00Z", "auto", "@name" or "CURRENT_DATE"
""",  # noqa: E501
    ),
    "a misspelled start": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "created_at", "start_date": "atuo",
}}}""",
        """
error[models.bad_start] start_date cannot be atuo
  models/my_schema/orders.py:2:34
    2 │     "time_column": "created_at", "start_date": "atuo",
      │                                  ^^^^^^^^^^^^ did you mean auto?
""",
    ),
    "a start at what is no variable": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "created_at", "start_date": "@start-date",
}}}""",
        """
error[models.bad_start] start_date cannot be @start-date
  models/my_schema/orders.py:2:34
    2 │     "time_column": "created_at", "start_date": "@start-date",
      │                                  ^^^^^^^^^^^^ write "2024-01-31", "2024-01-31T10:30:00Z", "auto", "@name" or "CURRENT_DATE"
""",  # noqa: E501
    ),
    "only_newer without a time column": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": "id", "only_newer": True,
}}}""",
        """
error[models.missing_key] only_newer needs time_column
  models/my_schema/orders.py:2:25
    2 │     "unique_key": "id", "only_newer": True,
      │                         ^^^^^^^^^^^^ give one, or the name of a column
""",
    ),
    "only_newer for an append": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "created_at",
}},
    "only_newer": True,}""",
        """
error[models.misplaced_key] append takes no only_newer
  models/my_schema/orders.py:4:5
    4 │     "only_newer": True,}
      │     ^^^^^^^^^^^^ it is for merge
""",
    ),
    "a schema policy for a table": (
        '{"on_schema_change": "fail"}',
        """
error[models.misplaced_key] a table takes no on_schema_change
  models/my_schema/orders.py:1:13
    1 │ metadata = {"on_schema_change": "fail"}
      │             ^^^^^^^^^^^^^^^^^^ it is for append, merge, delete_insert, full_merge, incremental_join
""",
    ),
    "a layout for a view": (
        '{"partition_by": "status", "materialization": "view"}',
        """
error[models.misplaced_key] a view takes no partition_by
  models/my_schema/orders.py:1:13
    1 │ metadata = {"partition_by": "status", "materialization": "view"}
      │             ^^^^^^^^^^^^^^ it is for table, materialized_view, append, merge, delete_insert, full_merge, incremental_join
""",  # noqa: E501
    ),
    "a key at two levels": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "created_at", "null_time": "skip",
}},
    "null_time": "skip",}""",
        """
error[models.repeated_key] null_time is given twice
  models/my_schema/orders.py:4:5
    4 │     "null_time": "skip",}
      │     ^^^^^^^^^^^ keep one of them
""",
    ),
    "a key twice": (
        '{"description": "a", "description": "b"}',
        """
error[models.repeated_key] description is given twice
  models/my_schema/orders.py:1:33
    1 │ metadata = {"description": "a", "description": "b"}
      │                                 ^^^^^^^^^^^^^ keep one of them
""",
    ),
    "a share above 1": (
        '{"max_shrink": 10}',
        """
error[table.bad_max_shrink] max_shrink is a share from 0 to 1, not 10
  models/my_schema/orders.py:1:13
    1 │ metadata = {"max_shrink": 10}
      │             ^^^^^^^^^^^^ write 0.1 for a tenth of the rows
""",
    ),
    "two layouts": (
        '{"partition_by": "status", "cluster_by": "id"}',
        """
error[models.two_layouts] a table is partitioned or clustered, not both
  models/my_schema/orders.py:1:39
    1 │ metadata = {"partition_by": "status", "cluster_by": "id"}
      │                                       ^^^^^^^^^^^^ keep partition_by or cluster_by
""",
    ),
    "a condition with an open quote": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert": {
    "where_condition": "status = 'open",
}}}""",
        """
error[models.bad_condition] this string is not closed
  models/my_schema/orders.py:2:5
    2 │     "where_condition": "status = 'open",
      │     ^^^^^^^^^^^^^^^^^ close it with '
""",
    ),
    "a condition with a text variable": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert": {
    "where_condition": "status = '${kind}'",
}}}""",
        """
error[models.bad_condition] ${…} has no meaning here
  models/my_schema/orders.py:2:5
    2 │     "where_condition": "status = '${kind}'",
      │     ^^^^^^^^^^^^^^^^^ write @name, whose value is always a value and never SQL
""",
    ),
    "a condition with a ;": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert": {
    "where_condition": "id > 1; DROP TABLE t",
}}}""",
        """
error[models.bad_condition] a condition has no ; in it
  models/my_schema/orders.py:2:5
    2 │     "where_condition": "id > 1; DROP TABLE t",
      │     ^^^^^^^^^^^^^^^^^ write one condition, such as day >= @start_date
""",
    ),
    "a condition on an unknown column": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "delete_insert", "delete_insert": {
    "where_condition": "updatd_at >= @start_date",
}}}""",
        """
error[models.unknown_column] where_condition names updatd_at, which the query does not give
  models/my_schema/orders.py:2:5
    2 │     "where_condition": "updatd_at >= @start_date",
      │     ^^^^^^^^^^^^^^^^^ did you mean updated_at?
""",
    ),
    "a key column that the query does not give": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": ["id", "idd"],
}}}""",
        """
error[models.unknown_column] unique_key names idd, which the query does not give
  models/my_schema/orders.py:2:5
    2 │     "unique_key": ["id", "idd"],
      │     ^^^^^^^^^^^^ did you mean id?
""",
    ),
    "a time column that the query does not give": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "append", "append": {
    "time_column": "at",
}}}""",
        """
error[models.unknown_column] time_column names at, which the query does not give
  models/my_schema/orders.py:2:5
    2 │     "time_column": "at",
      │     ^^^^^^^^^^^^^ its columns are id, status, created_at, updated_at
""",
    ),
    "an only_newer column that the query does not give": (
        """\
{"materialization": "incremental", "incremental": {"strategy": "merge", "merge": {
    "unique_key": "id", "only_newer": "seen",
}}}""",
        """
error[models.unknown_column] only_newer names seen, which the query does not give
  models/my_schema/orders.py:2:25
    2 │     "unique_key": "id", "only_newer": "seen",
      │                         ^^^^^^^^^^^^ its columns are id, status, created_at, updated_at
""",
    ),
    "a check of two kinds": (
        '{"checks": [{"not_null": "id", "unique": "id"}]}',
        """
error[models.bad_check] a check is of one kind, and this one has not_null, unique
  models/my_schema/orders.py:1:24
    1 │ metadata = {"checks": [{"not_null": "id", "unique": "id"}]}
      │                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ give one of not_null, unique, accepted_values, relationships, row_count, condition
""",  # noqa: E501
    ),
    "a check of no kind": (
        '{"checks": [{"severity": "warn"}]}',
        """
error[models.bad_check] a check is of one kind, and this one has none
  models/my_schema/orders.py:1:24
    1 │ metadata = {"checks": [{"severity": "warn"}]}
      │                        ^^^^^^^^^^^^^^^^^^^^ give one of not_null, unique, accepted_values, relationships, row_count, condition
""",  # noqa: E501
    ),
    "a check of an unknown kind": (
        '{"checks": [{"notnull": "id"}]}',
        """
error[models.unknown_key] checks[0] has no key notnull
  models/my_schema/orders.py:1:25
    1 │ metadata = {"checks": [{"notnull": "id"}]}
      │                         ^^^^^^^^^ did you mean not_null?
""",
    ),
    "a check of unknown severity": (
        '{"checks": [{"not_null": "id", "severity": "warning"}]}',
        """
error[models.unknown_value] severity must be one of error, warn, not warning
  models/my_schema/orders.py:1:43
    1 │ metadata = {"checks": [{"not_null": "id", "severity": "warning"}]}
      │                                           ^^^^^^^^^^ did you mean warn?
""",
    ),
    "a check that is a number": (
        '{"checks": [5]}',
        """
error[models.wrong_type] checks[0] must be a text or a dict, not 5
  models/my_schema/orders.py:1:24
    1 │ metadata = {"checks": [5]}
      │                        ^ write "…"
""",
    ),
    "checks that are no list": (
        '{"checks": "id > 0"}',
        """
error[models.wrong_type] checks must be a list of texts or dicts, not 'id > 0'
  models/my_schema/orders.py:1:13
    1 │ metadata = {"checks": "id > 0"}
      │             ^^^^^^^^ write "checks": ["…"]
""",
    ),
    "a check of an unknown column": (
        '{"checks": ["id > 0", {"unique": ["id", "day"]}]}',
        """
error[models.unknown_column] this check names day, which the query does not give
  models/my_schema/orders.py:1:35
    1 │ metadata = {"checks": ["id > 0", {"unique": ["id", "day"]}]}
      │                                   ^^^^^^^^ its columns are id, status, created_at, updated_at
""",
    ),
    "a condition of a check on an unknown column": (
        '{"checks": ["amount > 0"]}',
        """
error[models.unknown_column] this check names amount, which the query does not give
  models/my_schema/orders.py:1:24
    1 │ metadata = {"checks": ["amount > 0"]}
      │                        ^^^^^^^^^^^^ its columns are id, status, created_at, updated_at
""",
    ),
    "a check without values": (
        '{"checks": [{"accepted_values": {"column": "status"}}]}',
        """
error[models.missing_key] accepted_values needs values
  models/my_schema/orders.py:1:25
    1 │ metadata = {"checks": [{"accepted_values": {"column": "status"}}]}
      │                         ^^^^^^^^^^^^^^^^^ write "values": ["…"]
""",
    ),
    "a check with a value of no type": (
        '{"checks": [{"accepted_values": {"column": "status", "values": [None]}}]}',
        """
error[models.wrong_type] values[0] must be a text, a number or true or false, not None
  models/my_schema/orders.py:1:76
    1 │ metadata = {"checks": [{"accepted_values": {"column": "status", "values": [None]}}]}
      │                                                                            ^^^^ write "…"
""",
    ),
    "a check of no bounds": (
        '{"checks": [{"row_count": {}}]}',
        """
error[checks.bad_check] row_count has neither min nor max
  models/my_schema/orders.py:1:25
    1 │ metadata = {"checks": [{"row_count": {}}]}
      │                         ^^^^^^^^^^^ give one of them, or both
""",
    ),
    "a check of turned bounds": (
        '{"checks": [{"row_count": {"min": 5, "max": 2}}]}',
        """
error[checks.bad_check] row_count has a min of 5, above its max of 2
  models/my_schema/orders.py:1:25
    1 │ metadata = {"checks": [{"row_count": {"min": 5, "max": 2}}]}
      │                         ^^^^^^^^^^^ turn them around
""",
    ),
    "a check with a variable": (
        '{"checks": ["id > @low"]}',
        """
error[models.bad_condition] a check takes no variables
  models/my_schema/orders.py:1:24
    1 │ metadata = {"checks": ["id > @low"]}
      │                        ^^^^^^^^^^^ write its values into the condition
""",
    ),
    "a relationship to nowhere": (
        '{"checks": [{"relationships": {"column": "id"}}]}',
        """
error[models.missing_key] relationships needs to
  models/my_schema/orders.py:1:25
    1 │ metadata = {"checks": [{"relationships": {"column": "id"}}]}
      │                         ^^^^^^^^^^^^^^^ write "to": "…"
""",
    ),
}


@pytest.mark.parametrize(("metadata", "expected"), METADATA.values(), ids=METADATA)
def test_a_mistake_in_metadata_is_shown_at_its_key(error, metadata, expected):
    assert error(metadata) == shown(expected)


SIDECARS = {
    "no Python": (
        """\
x = 1
metadata = {
""",
        """
error[models.syntax] this is no Python: '{' was never closed
  models/my_schema/orders.py:2:12
    2 │ metadata = {
      │            ^ correct it
""",
    ),
    "a file that fails": (
        """\
def f():
    return 1 / 0

metadata = f()
""",
        """
error[models.sidecar_failed] running this file failed: ZeroDivisionError: division by zero
  models/my_schema/orders.py:2:5
    2 │     return 1 / 0
      │     ^^^^^^^^^^^^ correct it
""",
    ),
    "a file that ends everything": (
        """\
import sys
sys.exit()
""",
        """
error[models.sidecar_failed] running this file failed: SystemExit
  models/my_schema/orders.py:2:1
    2 │ sys.exit()
      │ ^^^^^^^^^^ correct it
""",
    ),
    "a name that is not there": (
        """\
metadata = merge
""",
        """
error[models.sidecar_failed] running this file failed: NameError: name 'merge' is not defined
  models/my_schema/orders.py:1:1
    1 │ metadata = merge
      │ ^^^^^^^^^^^^^^^^ correct it
""",
    ),
    "no metadata": (
        """\
append = {'tags': 'a'}
merge = dict(append)
""",
        """
error[models.no_metadata] this file gives no metadata
  models/my_schema/orders.py:1:1
    1 │ append = {'tags': 'a'}
      │ ^ write metadata = merge
""",
    ),
    "metadata by another name": (
        """\

metdata = {'tags': 'a'}
""",
        """
error[models.no_metadata] this file gives no metadata
  models/my_schema/orders.py:2:1
    2 │ metdata = {'tags': 'a'}
      │ ^^^^^^^ did you mean metadata?
""",
    ),
    "nothing at all": (
        "",
        """
error[models.no_metadata] this file gives no metadata
  models/my_schema/orders.py:1:1
    1 │
      │ ^ write metadata = { … }
""",
    ),
}


@pytest.mark.parametrize(("sidecar", "expected"), SIDECARS.values(), ids=SIDECARS)
def test_a_sidecar_that_gives_no_metadata_is_shown_where_it_fails(errors, query, sidecar, expected):
    assert errors({"orders.sql": query, "orders.py": sidecar}) == [shown(expected)]


QUERIES = {
    "JSON without a comma": (
        """\
-- metadata: {"tags": ["a" "b"]}
SELECT id, created_at FROM t_project.source_table
""",
        """
error[models.bad_json] this is not JSON: expecting ',' delimiter
  models/my_schema/orders.sql:1:28
    1 │ -- metadata: {"tags": ["a" "b"]}
      │                            ^ names and texts stand in "…", with , between them: {"materialization": "view"}
""",
    ),
    "no JSON": (
        """\
-- metadata:
SELECT id, created_at FROM t_project.source_table
""",
        """
error[models.bad_json] this is not JSON: expecting value
  models/my_schema/orders.sql:1:13
    1 │ -- metadata:
      │             ^ names and texts stand in "…", with , between them: {"materialization": "view"}
""",
    ),
    "more than JSON": (
        """\
-- metadata: {}}
SELECT id, created_at FROM t_project.source_table
""",
        """
error[models.bad_json] this does not belong to the JSON
  models/my_schema/orders.sql:1:16
    1 │ -- metadata: {}}
      │                ^ remove it, or write it on a line of its own
""",
    ),
    "a mistake in JSON over several lines": (
        """\
-- metadata: {"materialization": "incremental",
--  "incremental": {"strategy": "append",
--    "append": {"time_column": "created_at", "lookback": "7 dayz"}}}
SELECT id, created_at FROM t_project.source_table
""",
        """
error[window.bad_duration] '7 dayz' is not a length of time
  models/my_schema/orders.sql:3:47
    3 │ --    "append": {"time_column": "created_at", "lookback": "7 dayz"}}}
      │                                               ^^^^^^^^^^ write a whole number and a unit, such as "3 hours": seconds, minutes, hours, days, weeks, months, years
""",  # noqa: E501
    ),
    "no query": (
        """\
-- nothing
""",
        """
error[language.incomplete] a model needs a query
  models/my_schema/orders.sql:1:1
    1 │ -- nothing
      │ ^ write SELECT …
""",
    ),
    "something else than a query": (
        "INSERT INTO t SELECT 1",
        """
error[language.not_a_query] no query starts with INSERT
  models/my_schema/orders.sql:1:1
    1 │ INSERT INTO t SELECT 1
      │ ^^^^^^ a query starts with SELECT, WITH, FROM, VALUES, TABLE or (
""",
    ),
    "two queries": (
        """\
SELECT 1;
SELECT 2;""",
        """
error[models.two_queries] a model is one query
  models/my_schema/orders.sql:2:1
    2 │ SELECT 2;
      │ ^^^^^^ write this one into a file of its own
""",
    ),
    "an open quote": (
        "SELECT 'a",
        """
error[language.unterminated] this string is not closed
  models/my_schema/orders.sql:1:8
    1 │ SELECT 'a
      │        ^ close it with '
""",
    ),
    "a variable without a value": (
        "SELECT '${region}' AS region",
        """
error[language.missing_variable] ${region} has no value
  models/my_schema/orders.sql:1:9
    1 │ SELECT '${region}' AS region
      │         ^^^^^^^^^ give it with --var region=… or under [vars] in tidemill.toml, or write ${region|default}
""",
    ),
    "a query that names its tables by a function": (
        """\
SELECT id FROM
IDENTIFIER('main.t')""",
        """
error[models.unknown_inputs] what this query reads is not known: it names tables by a function
  models/my_schema/orders.sql:1:1
    1 │ SELECT id FROM
      │ ^^^^^^ name its tables in the metadata: "reads": ["my_schema.orders"]
""",
    ),
}


@pytest.mark.parametrize(("text", "expected"), QUERIES.values(), ids=QUERIES)
def test_a_mistake_in_a_sql_file_is_shown_at_its_line(errors, text, expected):
    assert errors({"orders.sql": text}) == [shown(expected)]


def test_metadata_has_one_place(errors, query):
    assert errors({"orders.sql": f"-- metadata: {{}}\n{query}", "orders.py": "metadata = {}"}) == [
        shown("""
error[models.two_metadata] metadata stands here and in models/my_schema/orders.py
  models/my_schema/orders.sql:1:4
    1 │ -- metadata: {}
      │    ^^^^^^^^ keep one of them
""")
    ]


def test_a_view_has_no_run_that_gives_it_variables(error):
    assert error('{"materialization": "view"}', "SELECT @region AS region") == shown("""
error[models.view_with_variables] a view is read when no run is there to give @region a value
  models/my_schema/orders.py:1:13
    1 │ metadata = {"materialization": "view"}
      │             ^^^^^^^^^^^^^^^^^ write ${region}, or make it a table
""")


def test_rows_that_differ_from_run_to_run_are_not_appended(error):
    metadata = """{"materialization": "incremental", "incremental": {
    "strategy": "append", "append": {"time_column": "at"}}}"""
    assert error(metadata, "SELECT id, collect_list(x) AS xs, max(at) AS at FROM t_project.source_table") == shown("""
error[models.unrepeatable] collect_list may give the same rows another value in the next run, and append would treat them as new
  models/my_schema/orders.py:2:5
    2 │     "strategy": "append", "append": {"time_column": "at"}}}
      │     ^^^^^^^^^^ order what collect_list reads, or use merge
""")  # noqa: E501


def test_a_file_that_gives_no_model_a_name_is_reported(errors):
    files = ("models/orders.sql", "models/a/b/orders.sql", "models/a/my-orders.sql", "models/a/.cache/x.sql")
    assert errors(dict.fromkeys(files, "SELECT 1")) == [
        f"error[models.bad_name] {file} gives no model a name\n"
        "  a model is models/<schema>/<name>.sql, named in letters, digits and _"
        for file in ("models/a/b/orders.sql", "models/a/my-orders.sql", "models/orders.sql")
    ]


def test_metadata_without_a_query_is_reported_and_other_python_files_are_not(errors, query):
    files = {
        "orders_active.sql": query,
        "orders_actve.py": "metadata = {}",
        "daily.py": "metadata = {}",
        "functions.py": "x = 1",
        "broken.py": "x =",
        "__init__.py": "metadata = {}",
    }
    assert errors(files) == [
        shown("""
error[models.no_query] there is no daily.sql beside this metadata
  models/my_schema/daily.py:1:1
    1 │ metadata = {}
      │ ^ write the query into daily.sql, or remove metadata
"""),
        shown("""
error[models.no_query] there is no orders_actve.sql beside this metadata
  models/my_schema/orders_actve.py:1:1
    1 │ metadata = {}
      │ ^ did you mean orders_active.sql?
"""),
    ]


def test_a_file_that_is_no_text_is_reported(folder):
    (folder / "models/my_schema").mkdir(parents=True)
    (folder / "models/my_schema/a.sql").write_bytes(b"SELECT '\xff'")
    (folder / "models/my_schema/b.sql").write_bytes(b"SELECT 1")
    (folder / "models/my_schema/b.py").write_bytes(b"metadata = '\xff'")
    with pytest.raises(FileErrors) as failure:
        Workspace.load(".")
    assert [excerpt(error) for error in failure.value.errors] == [
        "error[language.not_text] models/my_schema/a.sql is not UTF-8 text\n  save it as UTF-8",
        "error[language.not_text] models/my_schema/b.py is not UTF-8 text\n  save it as UTF-8",
    ]


def test_a_secret_in_a_query_is_in_no_error(error, folder):
    (folder / ".env").write_text("TOKEN=swordfish\n")
    assert "its columns are ***" in error('{"volatile": "day"}', "SELECT 1 AS ${env:TOKEN}")


MISSPELLED = """metadata = {
 'materialisation': 'incremental',
 'incremental': { 'startegy': 'merge',
                  'merge': {     'unique_key': 'idd',
 'lookback': 2.5,
 'time_column': 'day',
 'start_date': 'soon'}}}
"""


def test_everything_that_is_wrong_comes_at_once_by_file_and_line(errors, query):
    found = errors(
        {
            "a.sql": "SELECT 'x",
            "a.py": "metadata = {\n 'tags': 5,\n 'max_shrink': 5,\n 'tag': 1}",
            "b.sql": query,
            "b.py": "metadata = {\n 'checks': ['day > 0', {'unique': 5}],\n 'volatile': 'day'}",
            "c.sql": query.replace("SELECT", "SELEC"),
            "c.py": "metadata = {'materialization': 'incremental'}",
            "d.sql": query,
            "d.py": MISSPELLED,
            "pipelines/shop.sql": "LAOD x;",
        }
    )
    assert [text.splitlines()[1].strip() for text in found] == [
        "pipelines/shop.sql:1:1",
        "models/my_schema/a.sql:1:8",
        "models/my_schema/a.py:2:2",
        "models/my_schema/a.py:3:2",
        "models/my_schema/a.py:4:2",
        "models/my_schema/b.py:2:13",
        "models/my_schema/b.py:2:25",
        "models/my_schema/b.py:3:2",
        "models/my_schema/c.sql:1:1",
        "models/my_schema/c.py:1:13",
        *(f"models/my_schema/d.py:{line}" for line in ("2:2", "3:19", "4:34", "5:2", "6:2", "7:2")),
    ]
