from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tidemill import Cursor
from tidemill.declarations import Source
from tidemill.errors import ArgumentError, ConnectorError, Origin
from tidemill.model.cursor import cursor
from tidemill.results import CursorKind
from tidemill.sources import Connector
from tidemill.sources.http.rest import format_cursor
from tidemill.sources.jdbc import between, jdbc_source, read_address
from tidemill.sources.registry import connector_for, failures_of, known_kinds

POSTGRES = {"url": "postgresql://localhost/shop", "table": "orders"}


def test_connectors_are_made_without_spark():
    code = (
        "import sys; from tidemill.model.source import Source; from tidemill.sources.registry import connector_for;"
        "connector_for(Source('a', 'csv', {'path': 'x'})); connector_for(Source('a', 'PYTHON', {'function': 'm:f'}));"
        "connector_for(Source('a', 'Postgres', {'url': 'postgresql://h/d', 'table': 't'}));"
        "connector_for(Source('a', 'Rest', {'url': 'https://h/'})); connector_for(Source('a', 'avro', {}));"
        "assert 'pyspark' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_empty_text_is_none_as_the_password_of_a_server_that_wants_none_is():
    made = jdbc_source(Source("orders", "postgres", {**POSTGRES, "user": "shop", "password": ""}))
    assert (made.address.user, made.address.password) == ("shop", None)


@pytest.mark.parametrize(
    ("kind", "params", "problem"),
    [
        ("CSV", {}, "The source orders needs path."),
        ("CSV", {"path": 3}, "path of the source orders must be a text or a list of texts."),
        ("CSV", {"path": "x", "sep": [","]}, "sep of the source orders must be a text, a number, true or false."),
        (
            "PARQUET",
            {"path": "x", "types": {"a": "int"}},
            "The source orders takes no types: PARQUET files have their own.",
        ),
        ("DELTA", {"path": ["x", "y"]}, "path of the source orders must be one Delta table."),
        ("POSTGRES", {"table": "t"}, "The source orders needs url."),
        ("POSTGRES", {"url": "jdbc:mysql://h/d", "table": "t"}, "url of the source orders is not one of PostgreSQL."),
        ("POSTGRES", {**POSTGRES, "query": "SELECT 1"}, "The source orders needs a table or a query, not both."),
        ("JDBC", {"url": "jdbc:x:y"}, "The source orders needs a table or a query."),
        (
            "POSTGRES",
            {"url": POSTGRES["url"], "tabel": "t"},
            "The source orders of kind POSTGRES has no param tabel.",
        ),
        (
            "REST",
            {"url": "ftp://h/"},
            "url of the source orders must be an address that begins with https:// or http://.",
        ),
        ("REST", {"url": "http://h/", "retries": -1}, "retries of the source orders must be a whole number."),
        ("REST", {"url": "http://h/", "record": "x"}, "The source orders of kind REST has no param record."),
        ("PYTHON", {"function": "f"}, "function of the source orders must name a module and a function, not f."),
    ],
)
def test_wrong_params_are_found_when_the_connector_is_made(kind, params, problem):
    with pytest.raises(ArgumentError) as error:
        connector_for(Source("orders", kind, params, origin=Origin("shop.sql", 2)))
    assert error.value.problem == problem
    assert str(error.value.origin) == "shop.sql:2"


class Mine:
    def __init__(self, source: Source) -> None:
        self.source = source

    def version(self) -> str:
        if self.source.params.get("fails"):
            raise RuntimeError(f"no answer for {self.source.params['password']}")
        return f"version of {self.source.name}"


@pytest.fixture
def plugin(monkeypatch) -> None:
    points = metadata.EntryPoints([metadata.EntryPoint("Salesforce", f"{__name__}:Mine", "tidemill.sources")])
    monkeypatch.setattr("tidemill.sources.registry.entry_points", points.select)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


@pytest.mark.usefixtures("plugin")
def test_a_kind_of_a_users_package_is_found_by_its_entry_point():
    assert connector_for(Source("accounts", "SALESFORCE")).version() == "version of accounts"
    assert "SALESFORCE" in known_kinds()


@pytest.mark.usefixtures("plugin")
def test_what_a_users_connector_raises_names_the_source_and_hides_its_secrets():
    source = Source("accounts", "salesforce", {"fails": True, "password": "geheim"}, origin=Origin("a.sql", 1))
    with pytest.raises(ConnectorError) as error:
        connector_for(source).version()
    assert error.value.problem == "The source accounts could not be read: RuntimeError: no answer for ***"
    assert str(error.value.origin) == "a.sql:1"
    assert error.value.__cause__ is None


def test_the_connector_of_the_guide_has_what_every_connector_has():
    guide = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(class Numbers:.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    numbers = names["Numbers"](Source("n", "NUMBERS", {"count": 3}))
    wanted = {name: each for name, each in vars(Connector).items() if not name.startswith("_")}
    for name, each in wanted.items():
        if isinstance(each, property):
            assert isinstance(getattr(numbers, name), bool)
        else:
            asked = inspect.signature(each).parameters
            assert list(inspect.signature(getattr(type(numbers), name)).parameters) == list(asked), name
    assert numbers.version() == "3"


def test_a_harmless_cause_is_kept_for_the_log():
    with pytest.raises(ConnectorError) as error, failures_of(Source("a", "csv", {"password": "geheim"})):
        {}["id"]
    assert error.value.problem == "The source a could not be read: KeyError: 'id'"
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("url", "jdbc", "user", "password"),
    [
        ("postgresql://db/shop", "jdbc:postgresql://db/shop", None, None),
        ("postgres://bob:ge%40heim@db:5433/shop", "jdbc:postgresql://db:5433/shop", "bob", "ge@heim"),
        (
            "jdbc:postgresql://db/shop?user=bob&password=x&sslmode=require",
            "jdbc:postgresql://db/shop?sslmode=require",
            "bob",
            "x",
        ),
        ("jdbc:mysql://db/shop", "jdbc:mysql://db/shop", None, None),
    ],
)
def test_addresses_of_databases_part_from_their_passwords(url, jdbc, user, password):
    found = read_address(url)
    assert (found.jdbc, found.user, found.password) == (jdbc, user, password)
    assert read_address(url, "eve", "other").password == "other"
    assert "heim" not in repr(found)


@pytest.mark.parametrize(
    ("kind", "text", "where"),
    [
        (
            "timestamp",
            "2024-01-15T08:30:00.123456Z",
            '"a""b" >= TIMESTAMPTZ \'2024-01-15T08:30:00.123456Z\' OR "a""b" IS NULL',
        ),
        (
            "timestamp_ntz",
            "2024-01-15T08:30:00",
            '"a""b" >= TIMESTAMP \'2024-01-15T08:30:00.000000\' OR "a""b" IS NULL',
        ),
        ("date", "2024-01-15", '"a""b" >= DATE \'2024-01-15\' OR "a""b" IS NULL'),
        ("integer", "17", '"a""b" >= 17 OR "a""b" IS NULL'),
        ("decimal", "1.50", '"a""b" >= 1.50 OR "a""b" IS NULL'),
        ("string", "o'clock", '"a""b"::text COLLATE "C" >= \'o\'\'clock\' OR "a""b" IS NULL'),
    ],
)
def test_a_cursor_is_a_condition_that_postgres_reads_exactly(kind, text, where):
    assert between('a"b', cursor(kind, text), None) == where


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (cursor("timestamp", "2024-01-15T08:30:00.123456Z"), "iso", "2024-01-15T08:30:00.123456Z"),
        (cursor("timestamp", "2024-01-15T08:30:00.123456Z"), "date", "2024-01-15"),
        (cursor("timestamp", "2024-01-15T08:30:00.999999Z"), "epoch", "1705307400"),
        (cursor("timestamp", "2024-01-15T08:30:00.999999Z"), "epoch_ms", "1705307400999"),
        (cursor("timestamp", "1969-12-31T23:59:59.5Z"), "epoch", "-1"),
        (cursor("date", "2024-01-15"), "epoch", "1705276800"),
        (Cursor(CursorKind.INTEGER, 17), "epoch", "17"),
    ],
)
def test_a_cursor_is_sent_as_the_api_takes_it_rounded_down(value, form, text):
    assert format_cursor(value, form) == text
