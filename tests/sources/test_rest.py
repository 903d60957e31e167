from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from tidemill.declarations import Source
from tidemill.errors import ConnectorError, Origin
from tidemill.model.cursor import cursor
from tidemill.sources import Connector, Reading
from tidemill.sources.registry import connector_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rest(api, **params: Any) -> Connector:
    return connector_for(Source("orders", "REST", {"url": f"{api.url}/orders", **params}, origin=Origin("shop.sql", 5)))


def like(text: str) -> StructType:
    found = StructType.fromDDL(text)
    assert isinstance(found, StructType)
    return found


def listed(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=str)


def test_pages_of_records_become_rows(spark, api):
    records = [{"id": number, "at": f"2024-01-0{number + 1}T00:00:00Z", "tags": ["x"]} for number in range(5)]

    def answer(asked):
        start = int(asked.query["offset"])
        return {"data": {"items": records[start : start + 2]}}

    api.answer = answer
    connector = rest(api, records="data.items", pagination={"type": "offset", "size": 2})
    rows = connector.read(Reading(spark))
    assert {f.name: f.dataType.simpleString() for f in rows.schema.fields} == {
        "at": "timestamp",
        "id": "bigint",
        "tags": "array<string>",
    }
    assert sorted(row.id for row in rows.collect()) == [0, 1, 2, 3, 4]


def test_the_api_is_asked_once_however_often_the_rows_are_computed(spark, api):
    api.answer = lambda _: [{"id": 1}]
    connector = rest(api)
    rows = connector.read(Reading(spark))
    assert rows.count() == rows.count() == 1
    assert len(api.asked) == 1
    assert connector.settled


def test_the_cursor_goes_along_as_a_parameter(spark, api):
    api.answer = lambda asked: [{"id": 1, "at": asked.query["updated_since"]}]
    connector = rest(api, query={"status": "open"}, cursor_param="updated_since", headers={"X-Token": "geheim"})
    connector.read_since(Reading(spark), "at", cursor("timestamp", "2024-01-15T08:30:00.123456Z"))
    assert api.asked[0].query == {"status": "open", "updated_since": "2024-01-15T08:30:00.123456Z"}
    assert api.asked[0].headers["X-Token"] == "geheim"


def test_columns_that_are_null_or_missing_have_the_types_of_the_table(spark, api):
    api.answer = lambda _: (200, b'[{"id": 1, "note": null, "price": 0.12345678901234567890}, {"id": 2}]', {})
    rows = rest(api).read(Reading(spark, like("id INT, note STRING, price DECIMAL(38,20), gone DATE")))
    assert {f.name: f.dataType.simpleString() for f in rows.schema.fields} == {
        "id": "int",
        "note": "string",
        "price": "decimal(38,20)",
        "gone": "date",
    }
    assert listed(rows) == [(1, None, Decimal("0.12345678901234567890"), None), (2, None, None, None)]


def test_columns_that_are_always_null_are_no_failure_on_a_first_run(spark, api):
    api.answer = lambda _: [{"id": 1, "note": None}]
    assert listed(rest(api).read(Reading(spark))) == [(1, None)]


def test_no_records_are_no_rows_once_the_columns_are_known(spark, api):
    with pytest.raises(ConnectorError, match="The source orders gave no records yet, so its columns are not known"):
        rest(api).read(Reading(spark))
    assert listed(rest(api).read(Reading(spark, like("id INT")))) == []
    assert rest(api, schema="id INT").schema(Reading(spark)).simpleString() == "struct<id:int>"


def test_the_schema_takes_one_page(spark, api):
    api.answer = lambda asked: [{"id": int(asked.query["page"])}]
    assert rest(api, pagination={"type": "page"}).schema(Reading(spark)).simpleString() == "struct<id:bigint>"
    assert len(api.asked) == 1


def test_a_failure_halfway_is_an_error_that_names_the_source_and_no_secret(spark, api):
    def answer(asked):
        if asked.query["page"] == "2":
            return 403, {}, {}
        return [{"id": 1}]

    api.answer = answer
    connector = rest(
        api, pagination={"type": "page"}, query={"api_key": "geheim"}, headers={"Authorization": "Bearer geheim2"}
    )
    with pytest.raises(ConnectorError) as error:
        connector.read(Reading(spark))
    assert error.value.problem == (f"The source orders could not be read: {api.url}/orders answered 403 Forbidden.")
    assert str(error.value.origin) == "shop.sql:5"


def test_a_record_that_does_not_fit_the_table_is_an_error(spark, api):
    api.answer = lambda _: [{"id": "one"}]
    with pytest.raises(ConnectorError, match="The source orders could not be read"):
        rest(api).read(Reading(spark, like("id INT")))


def test_an_api_is_asked_no_faster_than_its_rate(spark, api):
    moments: list[float] = []

    def answer(asked):
        moments.append(time.monotonic())
        page = int(asked.query["page"])
        return [{"id": page}] if page < 4 else []

    api.answer = answer
    connector = rest(api, pagination={"type": "page"}, rate=4)
    began = time.monotonic()  # a request may take long to arrive, but none leaves before its turn
    connector.read(Reading(spark))
    assert len(moments) == 4
    assert moments[-1] - began >= 0.75
    with pytest.raises(ValueError, match="rate of the source orders must be a number of requests a second"):
        rest(api, rate=0)
