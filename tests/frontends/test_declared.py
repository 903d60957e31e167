"""Statements become the declarations that all ways in share."""

from __future__ import annotations

import pytest

from tidemill import MergeStrategy
from tidemill.declarations import Merge, Query
from tidemill.model import FileErrors


def test_a_query_says_what_of_it_may_differ_from_run_to_run(read):
    (table,) = read("CREATE TABLE t MODE APPEND AS SELECT k, first(a) AS f, sum(b) AS s FROM raw GROUP BY k;").tables
    assert isinstance(table.producer, Query)
    assert (table.producer.unrepeatable, table.producer.sums) == ("first", ("s",))


def test_a_table_with_two_layouts_is_an_error_at_its_statement(read):
    text = 'SOURCE s TYPE CSV;\nLOAD t FROM s OPTIONS { "partition_by": "day", "cluster_by": "region" };'
    with pytest.raises(FileErrors) as wrong:
        read(text)
    assert [(error.code, str(error.origin)) for error in wrong.value.errors] == [("table.two_layouts", "shop.sql:2:1")]


def test_create_table_takes_full_merge_and_says_which_kept_rows_are_intended(read):
    pipeline = read(
        "CREATE TABLE a MODE FULL_MERGE ON k AS SELECT k FROM raw;\n"
        'CREATE TABLE b MODE MERGE ON k OPTIONS { "kept_rows": "intended" } AS SELECT k FROM raw;\n'
        "CREATE TABLE c MODE MERGE ON k AS SELECT k FROM raw;"
    )
    a, b, c = pipeline.tables
    assert a.strategy == Merge(("k",), MergeStrategy.FULL_MERGE)
    assert (b.keeps_rows, c.keeps_rows) == (True, False)


def test_kept_rows_of_a_table_that_keeps_none_are_an_error_at_its_statement(read):
    text = 'CREATE TABLE t MODE FULL_MERGE ON k OPTIONS { "kept_rows": "intended" } AS SELECT k FROM raw;'
    with pytest.raises(FileErrors) as wrong:
        read(text)
    assert [(error.code, str(error.origin)) for error in wrong.value.errors] == [("table.no_kept_rows", "shop.sql:1:1")]
