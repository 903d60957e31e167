"""What the arguments of `@tidemill.table` mean: a declaration like all others. Other spellings end here."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from tidemill.declare.durations import duration
from tidemill.declare.formats import OF_WAREHOUSE
from tidemill.declare.functions import UTC, Function
from tidemill.declare.mistakes import suggestion
from tidemill.declare.names import RESET_ALLOWED, spelled
from tidemill.declare.sources import as_names
from tidemill.declare.strategies import Append, Merge, MergeStrategy, Replace
from tidemill.declare.tables import KeptRows, NullTime, SchemaPolicy, Table, Window
from tidemill.declare.variables import as_text
from tidemill.errors import ArgumentError
from tidemill.models.expectations import read_expectations
from tidemill.models.schemas import columns_of_ddl, ddl_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidemill.declare.durations import Duration
    from tidemill.declare.functions import Decorated
    from tidemill.declare.names import Naming
    from tidemill.declare.strategies import Strategy
    from tidemill.models.document import Document

INPUT = "function"  # under which a table keeps how far it has been fetched
MAX_SHRINK = 0.1  # of a table that is replaced by what a function gives
_FOR_DATES = ("start", "lookback", "timezone", "batch", "null_time")
_FORMS = {"merge": MergeStrategy.UPSERT, **{str(form): form for form in MergeStrategy}}
_COLUMNS = ("keys", "time_column", "dedup_order_by", "partition_by", "cluster_by", "volatile")
_NAME = re.compile(r"\w+\.\w+")


class Arguments:
    """Reads arguments whose types are right. What does not go together is noted in their document."""

    def __init__(self, document: Document, given: Mapping[str, Any], function: Decorated, naming: Naming) -> None:
        self.document, self.given, self.function, self.naming = document, given, function, naming

    def table(self, path_of: Callable[[str], str], reading: Naming) -> Table | None:
        """The declaration; None where something has been noted."""
        name = self._name()
        strategy, window, producer = self._strategy(), self._window(), self._producer()
        properties = {key: as_text(value) for key, value in self.given.get("table_properties", {}).items()}
        reads = (reading.key(each) for each in self._names("reads"))
        if self.document.errors or strategy is None:
            return None
        try:
            return Table(
                name=name,
                path=path_of(name),
                strategy=strategy,
                window=window,
                volatile=self._names("volatile"),
                schema_policy=SchemaPolicy(self.given.get("on_schema_change", SchemaPolicy.FAIL)),
                partition_by=self._names("partition_by"),
                cluster_by=self._names("cluster_by"),
                format=self.given.get("format", OF_WAREHOUSE),
                properties=properties,
                input=INPUT,
                origin=self.document.places.root.origin,
                producer=producer,
                inputs=tuple(dict.fromkeys(each for each in reads if each != name.lower())),
                reset_allowed=self.given.get("reset_allowed", True) and _allows_reset(properties),
                description=self.given.get("comment"),
                tags=self._names("tags"),
                kept_rows=KeptRows(self.given["kept_rows"]) if "kept_rows" in self.given else None,
            )
        except ArgumentError as bad:
            self.document.pass_on(("cluster_by",), bad)
            return None

    def _name(self) -> str:
        name = self.naming.full(self.given.get("name", self.function.call.__name__))
        if not _NAME.fullmatch(name):
            remedy = "name it table or schema.table, in letters, digits and _"
            self.document.note(("name",), "table.bad_name", f"{name!r} is no name of a table", remedy)
        return name

    def _names(self, name: str) -> tuple[str, ...]:
        return as_names(self.given.get(name)) or ()

    # how rows enter

    def _strategy(self) -> Strategy | None:
        word = self.given.get("strategy", "merge" if self._names("keys") else None)
        if word is None:
            remedy = 'give keys=[…], or strategy="append" or "replace"'
            self._note("strategy", "missing_key", "nothing says how its rows enter the table", remedy)
            return None
        self._check_belongs(word)
        try:
            return self._made(word)
        except ArgumentError as bad:
            self.document.pass_on(("max_shrink" if bad.code == "table.bad_max_shrink" else "keys",), bad)
            return None

    def _made(self, word: str) -> Strategy:
        shrink: float | None = self.given.get("max_shrink")
        if word == "replace":
            return Replace(MAX_SHRINK, by_default=True) if shrink is None else Replace(shrink)
        if word == "append":
            return Append()
        return Merge(self._names("keys"), _FORMS[word], self._names("dedup_order_by"), max_shrink=shrink)

    def _check_belongs(self, word: str) -> None:
        """Arguments that the strategy would silently ignore."""
        taken = {
            "keys": word in _FORMS,
            "dedup_order_by": word in _FORMS,
            "max_shrink": word in {"replace", "full_merge"},
            "kept_rows": word in _FORMS and word != "full_merge",
        }
        for name, fits in taken.items():
            if name in self.given and not fits:
                self._note(name, "misplaced_key", f"{word} takes no {name}", "leave it out, or use another strategy")
        if word in _FORMS and not self._names("keys"):
            self._note("strategy", "missing_key", f"{word} needs keys", 'write keys=["…"]')

    # dates

    def _window(self) -> Window | None:
        column = self.given.get("time_column")
        if column is None:
            for name in (name for name in _FOR_DATES if name in self.given):
                self._note(name, "missing_key", f"{name} needs time_column", 'write time_column="…"')
            return None
        null_time = NullTime(self.given.get("null_time", NullTime.FAIL))
        return Window(column, self._start(), self._duration("lookback"), null_time)

    def _start(self) -> str | None:
        given = self.given.get("start")
        if given is None:
            return None
        try:
            return date.fromisoformat(str(given).strip()).isoformat()
        except ValueError:
            self._note("start", "bad_start", f"start cannot be {given}", "write a date, such as 2023-10-01")
            return None

    def _duration(self, name: str) -> Duration | None:
        try:
            return duration(self.given[name]) if name in self.given else None
        except ArgumentError as bad:
            self.document.pass_on((name,), bad)
            return None

    def _timezone(self) -> ZoneInfo:
        name = self.given.get("timezone", "UTC")
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones is an OSError
            remedy = suggestion(name, available_timezones(), 'write a name such as "America/New_York"')
            self._note("timezone", "bad_timezone", f"{name} is no time zone", remedy)
            return UTC

    # the function

    def _producer(self) -> Function:
        return Function(
            call=self.function.call,
            timezone=self._timezone(),
            batch=self._batch(),
            schema=self._schema(),
            expectations=read_expectations(self.document, self.function.expectations),
            origin=self.document.places.root.origin,
        )

    def _batch(self) -> Duration | None:
        found = self._duration("batch")
        if found and found.amount < 1:
            self._note("batch", "bad_batch", f"a batch of {found} is none", 'write "1 day" at least')
        return found

    def _schema(self) -> str | None:
        if "schema" not in self.given:
            return None
        try:
            ddl = ddl_of(self.given["schema"])
            columns = columns_of_ddl(ddl)
        except ArgumentError as bad:
            self.document.pass_on(("schema",), bad)
            return None
        for name in _COLUMNS:
            for column in self._names(name):
                if spelled(column, columns) is None:
                    remedy = suggestion(column, columns, f"its columns are {', '.join(columns)}")
                    problem = f"{name} names {column}, which the schema does not have"
                    self._note(name, "unknown_column", problem, remedy)
        return ddl

    def _note(self, name: str, code: str, problem: str, remedy: str) -> None:
        self.document.note((name,), f"models.{code}", problem, remedy)


def _allows_reset(properties: Mapping[str, str]) -> bool:
    """The property by which others say it counts as well."""
    found = spelled(RESET_ALLOWED, properties)
    return found is None or properties[found].lower() != "false"
