"""Names in PARAMS, OPTIONS and `--option`: what nobody knows is an error, because Spark would ignore it."""

from __future__ import annotations

import inspect

import pytest
from pyspark.sql import DataFrameReader, DataFrameWriter

from tidemill.declarations import Merge, Source
from tidemill.errors import ArgumentError, Origin
from tidemill.execution.exports.options import Options
from tidemill.model.query import Export
from tidemill.sources.declared import file_source
from tidemill.sources.kinds import given_options, reader_options, writer_options
from tidemill.sources.registry import connector_for

HERE = Origin("shop.sql", 3)
NO_OPTIONS = {"self", "path", "paths", "schema", "partitionBy"}


@pytest.mark.parametrize("kind", ["csv", "json", "orc", "parquet", "text", "xml"])
def test_every_option_of_pysparks_readers_and_writers_is_known(kind):
    asked = [
        name
        for name, each in inspect.signature(getattr(DataFrameReader, kind)).parameters.items()
        if each.kind is not each.VAR_KEYWORD
    ]
    assert set(asked) - NO_OPTIONS <= set(reader_options(kind) or ())
    if kind in {"csv", "json", "orc", "parquet"}:
        written = set(inspect.signature(getattr(DataFrameWriter, kind)).parameters)
        assert written - NO_OPTIONS - {"mode"} <= set(writer_options(kind))
        assert "mode" not in writer_options(kind)


@pytest.mark.parametrize(
    ("kind", "params", "problem", "remedy"),
    [
        ("CSV", {"seperator": ";"}, "CSV has no param seperator", "Did you mean sep?"),
        ("TSV", {"headr": False}, "TSV has no param headr", "Did you mean header?"),
        ("CSV", {"has_header": True, "header": False}, "CSV has no param has_header", "Did you mean header?"),
        ("CSV", {"colums": ["id"]}, "CSV has no param colums", "Did you mean columns?"),
        ("JSON", {"multi_line": True}, "JSON has no param multi_line", "Did you mean multiLine?"),
        ("PARQUET", {"merge_schema": True}, "PARQUET has no param merge_schema", "Did you mean mergeSchema?"),
        ("DELTA", {"versionOf": 3}, "DELTA has no param versionOf", "Did you mean versionAsOf?"),
        ("text", {"wholetxt": True}, "TEXT has no param wholetxt", "Did you mean wholetext?"),
        ("ORC", {"sep": ","}, "ORC has no param sep", None),
    ],
)
def test_a_param_that_sparks_reader_does_not_have_is_an_error_with_the_nearest(kind, params, problem, remedy):
    with pytest.raises(ArgumentError) as error:
        connector_for(Source("orders", kind, {"path": "x", **params}, origin=HERE))
    assert (error.value.code, error.value.problem) == (
        "source.unknown_param",
        f"The source orders of kind {problem}.",
    )
    assert remedy is None or error.value.remedy == remedy
    assert error.value.origin == HERE


def test_where_no_name_is_near_all_are_named_and_the_way_around():
    with pytest.raises(ArgumentError) as error:
        connector_for(Source("orders", "POSTGRES", {"url": "postgresql://h/d", "table": "t", "ssl": "true"}))
    assert error.value.remedy.startswith("Its params are batch_size, columns, connectionProvider,")
    assert error.value.remedy.endswith('"spark": {…} passes names to Spark as they are.')


def test_a_misspelt_param_that_is_needed_is_named():
    with pytest.raises(ArgumentError) as error:
        connector_for(Source("orders", "CSV", {"pth": "x"}))
    assert str(error.value) == "[source.missing_param] The source orders needs path. Did you mean path instead of pth?"


def test_options_in_any_case_has_header_and_whatever_stands_under_spark_reach_the_reader():
    given = {"path": "x", "MULTILINE": True, "has_header": False, "spark": {"fs.s3a.endpoint": "h", "odd": 1}}
    assert file_source(Source("orders", "csv", given)).options == {
        "MULTILINE": "true",
        "header": "false",
        "fs.s3a.endpoint": "h",
        "odd": "1",
    }


def test_a_data_source_of_somebody_elses_takes_any_param():
    connector_for(Source("orders", "mongodb", {"colection": "x"}))
    connector_for(Source("orders", "com.example.Csv", {"seperator": "x"}))


@pytest.mark.parametrize(("kind", "close"), [("CVS", "CSV"), ("postgre", "POSTGRES"), ("jsn", "JSON")])
def test_a_misspelt_kind_is_found_without_spark(kind, close):
    with pytest.raises(ArgumentError) as error:
        connector_for(Source("orders", kind, {"path": "x"}, origin=HERE))
    assert (error.value.code, error.value.remedy) == ("source.unknown_kind", f"Did you mean {close}?")
    assert error.value.origin == HERE


def test_options_of_a_command_line_are_known_by_the_kind_of_the_files():
    assert given_options("csv", {"SEP": ";", "has_header": "false", "spark.odd": "1"}) == {
        "SEP": ";",
        "header": "false",
        "odd": "1",
    }
    with pytest.raises(ArgumentError) as error:
        given_options("parquet", {"mergeSchemas": "true"})
    assert str(error.value) == (
        "[source.unknown_option] Spark has no option mergeSchemas for reading PARQUET files. Did you mean mergeSchema?"
    )
    with pytest.raises(ArgumentError, match=r"Write spark\.sep=… to pass it to Spark as it is"):
        given_options("parquet", {"sep": ";"})


def export(kind: str, options: dict[str, object], **more: object) -> Export:
    return Export("out", "out/x", kind, table="t", options=options, origin=HERE, **more)


@pytest.mark.parametrize(
    ("made", "name", "remedy"),
    [
        (export("CSV", {"seperator": ";"}), "seperator", "Did you mean sep?"),
        (export("json", {"mode": "overwrite"}), "mode", "Did you mean codec?"),
        (export("parquet", {"partition": "day"}), "partition", "Did you mean partition_by?"),
        (export("parquet", {"sep": ","}, mode=Merge(("id",))), "sep", "Its options are compression, partition_by."),
        (export("delta", {"partitionby": "day"}), "partitionby", "Did you mean partition_by?"),
        (export("postgres", {"tabel": "t"}), "tabel", "Did you mean table?"),
        (export("jdbc", {"batch_size": 10}), "batch_size", "Did you mean batchsize?"),
    ],
)
def test_an_option_of_an_export_that_nobody_knows_is_an_error_with_the_nearest(made, name, remedy):
    with pytest.raises(ArgumentError) as error:
        Options(made)
    assert (error.value.code, error.value.problem) == (
        "export.unknown_option",
        f"The export out has no option {name}.",
    )
    assert (error.value.remedy, error.value.origin) == (remedy, HERE)


def test_an_export_passes_what_it_knows_and_whatever_stands_under_spark():
    given = {"has_header": False, "quoteAll": True, "spark": {"odd": 1}}
    assert Options(export("csv", given)).left() == {"header": "false", "quoteAll": "true", "odd": "1"}
    properties = {"delta.appendOnly": True, "spark": {"owner": "me"}}
    assert Options(export("delta", properties)).left() == {"delta.appendOnly": "true", "owner": "me"}
