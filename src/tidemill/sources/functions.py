"""Python functions as a source: whatever frames or lists of records they return or yield."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError, ConnectorError, MissingFileError
from tidemill.sources import Connector, Run, select_columns
from tidemill.sources.declared import Params

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from tidemill.model.cursor import Cursor
    from tidemill.model.source import Source
    from tidemill.sources import Mode, Reading


def called(function: Callable[..., Any], run: Any) -> Iterator[Any]:
    """What a function gives, one by one: it is called with the run, or without anything if it has no parameters."""
    found = function(run) if inspect.signature(function).parameters else function()
    if isinstance(found, Iterator):
        yield from found
    elif found is not None:
        yield found


def function_source(source: Source) -> FunctionSource:
    """The connector for a declared function; it is imported when it is called."""
    params = Params(source)
    place = params.needed("function")
    module, colon, name = place.rpartition(":")
    if not (colon and module and name.isidentifier()):
        raise ArgumentError(
            "source.bad_param",
            f"function of the source {source} must name a module and a function, not {place}.",
            'Write "module:function" or "file.py:function".',
            origin=source.origin,
        )
    params.end()
    return FunctionSource(source, module, name)


@dataclass(frozen=True)
class FunctionSource(Connector):
    """What a function gives: Spark, Arrow or pandas frames, or lists of dicts, returned or yielded one by one.

    It is called with `run`, or without if it takes nothing, once per reading; its rows are kept.
    """

    source: Source
    module: str
    function: str
    settled: bool = True

    def __str__(self) -> str:
        return self.source.name

    def read(self, reading: Reading, columns: Sequence[str] = ()) -> DataFrame:
        return self._read(reading, reading.run or self._run(reading, None), columns)

    def read_since(self, reading: Reading, column: str, value: Cursor, columns: Sequence[str] = ()) -> DataFrame:  # noqa: ARG002
        """All that it gives: the function has `run.start` to go by."""
        return self._read(reading, reading.run or self._run(reading, value), columns)

    def _run(self, reading: Reading, since: Cursor | None) -> Run:
        """What it is called with: a source has dates once it is read from a time on, up to today in UTC."""
        start = since.value if since and since.kind.is_time else None
        first = start.date() if isinstance(start, datetime) else start if isinstance(start, date) else None
        mode: Mode = "first" if reading.like is None else "incremental"
        return Run(first, datetime.now(UTC).date() if first else None, mode, session=lambda: reading.spark)

    def _read(self, reading: Reading, run: Run, columns: Sequence[str]) -> DataFrame:
        from tidemill.sources.frames import Batches  # noqa: PLC0415  it imports PySpark

        with tempfile.TemporaryDirectory(prefix="tidemill-function-") as folder:
            batches = Batches(reading, Path(folder))
            for given in self._given(run):
                if given is not None and not batches.add(given):
                    raise self._unknown_rows(given)
            rows = batches.rows()
            if rows is None:
                raise ConnectorError(
                    "source.no_columns",
                    f"{self.function} of the source {self} gave nothing, so its columns are not known.",
                    "Return an empty frame with its columns instead.",
                )
            chosen = select_columns(rows, columns or self.source.columns, self)
            return batches.keep(chosen)

    def _given(self, run: Run) -> Iterator[Any]:
        with _importable(self.source.folder):
            yield from called(self._function(), run)

    def _unknown_rows(self, given: object) -> ConnectorError:
        return ConnectorError(
            "source.unknown_rows",
            f"{self.function} of the source {self} gave a {type(given).__name__}.",
            "Return or yield Spark, Arrow or pandas frames, or lists of dicts.",
        )

    def _function(self) -> Callable[..., Any]:
        module = self._load_module()
        found = getattr(module, self.function, None)
        if not callable(found):
            raise ConnectorError(
                "source.no_function",
                f"{self.module}, which the source {self} names, has no function {self.function}.",
                "Correct function in its params.",
            )
        function: Callable[..., Any] = found
        return function

    def _load_module(self) -> Any:
        folder = self.source.folder or Path.cwd()
        file = folder / (self.module if self.module.endswith(".py") else f"{self.module}.py")
        if not self.module.endswith(".py") and not file.is_file():
            return importlib.import_module(self.module)
        # A file is loaded each time: another pipeline may have a module of the same name beside it.
        if not file.is_file():
            raise MissingFileError("source.missing", f"There is no file {file}.", f"The source {self} names it.")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None  # noqa: S101  a file that ends in .py has a loader
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    """Modules beside the pipeline can be imported while its functions run."""
    place = str((folder or Path.cwd()).absolute())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
