"""APIs as a source: pages of JSON over HTTP."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.declare.sources import bad_param
from tidemill.errors import ArgumentError, ConnectorError
from tidemill.sources.files.untyped import Types, empty, read_json
from tidemill.sources.http.fetch import Fetcher, as_json_line, with_query
from tidemill.sources.http.pace import Pace
from tidemill.sources.http.pages import MOST_PAGES, Pagination, pages, read_pagination
from tidemill.sources.kept import kept
from tidemill.sources.narrow import picked
from tidemill.sources.params import Params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidemill.declare.cursors import Cursor
    from tidemill.declare.sources import Source
    from tidemill.sources.protocol import Reading

_FORMATS = ("iso", "date", "epoch", "epoch_ms")


def rest_source(source: Source) -> RestSource:
    """The connector for a declared API."""
    params = Params(source)
    url = with_query(params.needed("url"), params.texts("query"))
    if not url.startswith(("http://", "https://")):
        raise bad_param(source, "url", "an address that begins with https:// or http://")
    body = params.mapping("body")
    fetcher = Fetcher(
        url,
        (params.text("method") or ("GET" if body is None else "POST")).upper(),
        params.texts("headers"),
        None if body is None else json.dumps(body).encode(),
        params.seconds("timeout", 30.0),
        params.retries("retries", 5),
        pace=_pace(params),
    )
    found = RestSource(
        source,
        fetcher,
        read_pagination(params, source.batch_size),
        params.text("records"),
        params.text("cursor_param"),
        _format(params),
        params.count("max_pages", MOST_PAGES),
        Types(params.text("schema"), params.texts("types"), source.name),
    )
    params.end()
    return found


@dataclass(frozen=True)
class RestSource:
    """The records of an API. They go through a file, page by page, so that memory does not grow with them.

    What comes back is kept beside the executors: the API is asked once, whatever is done with the frame.
    """

    source: Source
    fetcher: Fetcher
    pagination: Pagination
    records: str | None
    cursor_param: str | None
    cursor_format: str
    max_pages: int
    types: Types
    settled: bool = True

    def __str__(self) -> str:
        return self.source.name

    def schema(self, reading: Reading) -> StructType:
        """From the first page only."""
        return self._rows(reading, {}, (), most=1).schema

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return self._rows(reading, {}, columns)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        """The value goes along as the query parameter that `cursor_param` names; what it does there is the API's."""
        query = {self.cursor_param: sent(value, self.cursor_format)} if self.cursor_param else {}
        return self._rows(reading, query, columns)

    def version(self) -> str | None:
        return None

    def _rows(
        self, reading: Reading, query: Mapping[str, str], columns: Sequence[str], most: int | None = None
    ) -> DataFrame:
        with tempfile.TemporaryDirectory(prefix="tidemill-rest-") as folder:
            file = Path(folder) / "records.json"
            if not self._download(file, with_query(self.fetcher.url, query), most):
                return picked(self._nothing(reading), columns or self.source.columns, self)
            rows = read_json(reading, [str(file)], {}, self.types)
            return kept(picked(rows, columns or self.source.columns, self))

    def _download(self, file: Path, url: str, most: int | None) -> int:
        """Writes the records as lines, and answers how many there are."""
        count = 0
        with file.open("w", encoding="ascii") as lines:
            for page in pages(self.fetcher.fetch, url, self.pagination, self.records, self.max_pages):
                lines.writelines(f"{as_json_line(record)}\n" for record in page.records)
                count += len(page.records)
                if most is not None and page.number + 1 >= most:
                    break
        return count

    def _nothing(self, reading: Reading) -> DataFrame:
        rows = empty(reading, self.types)
        if rows is None:
            raise ConnectorError(
                "source.no_columns",
                f"The source {self} gave no records yet, so its columns are not known.",
                'Give them in its params: "schema": "id BIGINT, updated_at TIMESTAMP".',
            )
        return rows


def _pace(params: Params) -> Pace | None:
    rate = params.rate("rate")
    return Pace(rate) if rate else None


def sent(value: Cursor, form: str) -> str:
    """A cursor's value as an API takes it. Where the form is coarser, it is rounded down, so that no row is lost."""
    moment = value.value
    if form == "iso" or not isinstance(moment, date):
        return value.text()
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    if form == "date":
        return moment.date().isoformat()
    seconds = int((moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1)
    return str(seconds if form == "epoch" else seconds * 1000 + moment.microsecond // 1000)


def _format(params: Params) -> str:
    form = params.text("cursor_format") or "iso"
    if form not in _FORMATS:
        raise ArgumentError(
            "source.bad_param",
            f"cursor_format of the source {params.source} must be one of {', '.join(_FORMATS)}, not {form}.",
            "Correct it.",
            origin=params.source.origin,
        )
    return form
