from __future__ import annotations

import pytest

from tidemill.declarations import Append, Merge, Source
from tidemill.errors import ArgumentError, Origin
from tidemill.model.query import Export
from tidemill.model.source import source_of


def test_params_that_all_kinds_share_become_the_sources_own():
    found = source_of(
        "orders",
        "POSTGRES",
        {
            "table": "orders",
            "columns": ["id", "at"],
            "batch_size": 500,
            "primary_key": "id",
            "cursor_field": "at",
            "start_date": "2024-01-01",
        },
    )
    assert (found.columns, found.batch_size, found.primary_key) == (("id", "at"), 500, ("id",))
    assert (found.cursor, found.start) == ("at", "2024-01-01")
    assert found.params == {"table": "orders"}


def test_incremental_by_wins_over_cursor_field():
    found = source_of("orders", "CSV", {"cursor_field": "at", "start_date": "2023"}, cursor="updated_at", start="2024")
    assert (found.cursor, found.start, found.params) == ("updated_at", "2024", {})


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"batch_size": 0}, "batch_size of the source orders must be a whole number above zero."),
        ({"batch_size": "many"}, "batch_size of the source orders must be a whole number above zero."),
        ({"columns": [1]}, "columns of the source orders must be a name or a list of names."),
        ({"columns": []}, "columns of the source orders must be a name or a list of names."),
        ({"cursor_field": 3}, "cursor_field of the source orders must be a text."),
    ],
)
def test_a_wrong_param_is_named_with_its_place(params, problem):
    with pytest.raises(ArgumentError) as error:
        source_of("orders", "CSV", params, origin=Origin("shop.sql", 3))
    assert error.value.problem == problem
    assert str(error.value.origin) == "shop.sql:3"


def test_columns_must_hold_the_cursor_and_the_key():
    with pytest.raises(ArgumentError) as error:
        Source("orders", "CSV", columns=("id",), cursor="at", primary_key=("ID",))
    assert error.value.problem == "The columns of orders leave out at, which it needs as its cursor or key."


def test_a_declaration_shows_none_of_its_params():
    assert "geheim" not in repr(Source("orders", "POSTGRES", {"password": "geheim"}))
    assert "geheim" not in repr(Export("out", "t", "POSTGRES", table="t", options={"password": "geheim"}))


def test_secrets_are_found_by_their_names_and_inside_urls():
    source = Source(
        "orders",
        "REST",
        {
            "url": "postgresql://bob:geheim%21@db/shop",
            "password": "pa55word",
            "headers": {"Authorization": "Bearer abcdef", "Accept": "text/json"},
            "nested": [{"api_key": "k-1234"}],
            "jdbc": "jdbc:mysql://db/shop?user=bob&password=hidden1",
            "table": "orders",
        },
        secrets=frozenset({"from-the-environment"}),
    )
    said = "geheim! pa55word abcdef text/json k-1234 hidden1 orders bob from-the-environment"
    assert source.masking.mask(said) == "*** *** *** text/json *** *** orders bob ***"


def test_an_export_is_of_a_query_or_of_a_table():
    with pytest.raises(ArgumentError, match="The export out needs a query or a table, one of them"):
        Export("out", "out.csv", "CSV")
    with pytest.raises(ArgumentError, match="one of them"):
        Export("out", "out.csv", "CSV", query="SELECT 1", table="t")


def test_an_export_of_an_unknown_kind_names_the_nearest():
    with pytest.raises(ArgumentError, match=r"unknown kind, CVS. Did you mean CSV\?"):
        Export("out", "out.csv", "CVS", table="t")


def test_only_parquet_files_can_be_merged_into():
    with pytest.raises(ArgumentError, match="cannot merge into CSV files"):
        Export("out", "out", "csv", table="t", mode=Merge(("id",)))
    assert Export("out", "out", "PARQUET", table="t", mode=Merge(("id",))).merges_files
    assert Export("out", "out", "csv", table="t", mode=Append()).kind == "csv"
