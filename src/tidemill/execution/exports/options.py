"""What an export is asked for, its options one by one with their types; and what its last success was made of, and has
left: the same again is not written.

That is kept in a small JSON file per target, beside the warehouse's tables. Deleting one only means that its export
is written again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.formats import FORMATS
from tidemill.formats.filesystem import file_system, is_hidden
from tidemill.formats.registry import log_at
from tidemill.model import absolute, local_path
from tidemill.model.project import as_text as shown
from tidemill.model.query import DATABASE_KINDS, FILE_KINDS
from tidemill.model.source import as_names, as_text
from tidemill.sources.kinds import ANYTHING, remedy, spark_name, unknown, writer_options

if TYPE_CHECKING:
    from tidemill.errors import ArgumentError
    from tidemill.model.query import Export

_DATABASE = ("url", "table", "user", "password")


class Options:
    """Names count without case, as Spark's do. Making one starts no Spark, and finds names that are not known."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._left = {spark_name(name, export.options): value for name, value in export.options.items()}
        known = _known(export) if self._left else ()
        is_table = export.kind.lower() in FORMATS and export.kind.lower() not in FILE_KINDS
        properties = [name for name in self._left if is_table and "." in name]
        if name := unknown(self._left, [*known, *properties]):
            problem = f"has no option {name}"
            raise export.wrong("export.unknown_option", problem, remedy(name, known, "Its options"))

    def text(self, name: str) -> str | None:
        given = self._take(name)
        found = as_text(given)
        if given is not None and found is None:
            raise self._wrong(name, "a text")
        return found

    def names(self, name: str) -> tuple[str, ...]:
        given = self._take(name)
        found = as_names(given) if given is not None else ()
        if found is None:
            raise self._wrong(name, "a name or a list of names")
        return found

    def truth(self, name: str) -> bool:
        given = self._take(name)
        if not isinstance(given, bool | None):
            raise self._wrong(name, "true or false")
        return bool(given)

    def left(self) -> dict[str, str]:
        """What nobody asked for, and all of `spark`: Spark's options, or the properties of a table."""
        free = self._take(ANYTHING)
        if not isinstance(free, Mapping | None):
            raise self._wrong(ANYTHING, "an object")
        given = {**self._left, **(free or {})}
        for name, value in given.items():
            if isinstance(value, Mapping | list | tuple):
                raise self._wrong(name, "a text, a number, true or false")
        return {name: shown(value) for name, value in given.items() if value is not None}

    def _take(self, name: str) -> object:
        key = next((each for each in self._left if each.lower() == name), None)
        return None if key is None else self._left.pop(key)

    def _wrong(self, name: str, wanted: str) -> ArgumentError:
        return self._export.wrong("export.bad_option", f"has an option {name} that is not {wanted}", "Correct it.")


def _known(export: Export) -> tuple[str, ...]:
    kind = export.kind.lower()
    if export.merges_files:
        return "partition_by", "compression"
    if kind in FILE_KINDS:
        return "partition_by", *writer_options(kind), ANYTHING
    if kind == "jdbc":
        return *_DATABASE, *writer_options(kind), ANYTHING
    return _DATABASE if kind in DATABASE_KINDS else ("partition_by", ANYTHING)


logger = logging.getLogger("tidemill")

FOLDER = "_tidemill/exports"  # names with an underscore are no schema of tables
_UNSEEN = "unseen"  # what is in a database is not looked at


@dataclass(frozen=True, slots=True)
class ExportMemory:
    """The memory of all exports that belong to one warehouse."""

    warehouse: str

    def holds(self, export: Export, version: str | None) -> bool:
        """Whether the export, with its inputs at this version, would write what it wrote last, and that is there.

        A version that is not known is never the same. What others have added to the target of an APPEND is theirs.
        """
        known = self._read(export)
        if version is None or known.get("made_of") != _made_of(export, version):
            return False
        left = _left(export)
        return left is not None and (export.mode.appends or left == known.get("left"))

    def keep(self, export: Export, version: str | None, rows: int) -> None:
        """Remembers an export that is complete. That it cannot be kept is a warning: the next run writes again."""
        if version is None:
            return
        known = {
            "export": export.masking.mask(export.name),
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "rows": rows,
            "made_of": _made_of(export, version),
            "left": _left(export),
        }
        try:
            self._write(export, json.dumps(known, indent=1, ensure_ascii=False))
        except OSError as failure:
            logger.warning("%s was written, but that cannot be kept in %s: %s", known["export"], FOLDER, failure)

    def _read(self, export: Export) -> dict[str, Any]:
        files, path = file_system(self._file(export))
        try:
            with files.open_input_stream(path) as stream:
                known = json.loads(stream.read())
        except (OSError, ValueError):  # not there, or not whole
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self, export: Export, text: str) -> None:
        files, path = file_system(self._file(export))
        files.create_dir(path.rpartition("/")[0], recursive=True)
        with files.open_output_stream(f"{path}.new") as stream:
            stream.write(text.encode())
        files.move(f"{path}.new", path)

    def _file(self, export: Export) -> str:
        return f"{self.warehouse.rstrip('/')}/{FOLDER}/{_digest(export.kind.lower(), place_of(export))}.json"


def place_of(export: Export) -> str:
    """Where the export goes: a path as it is from anywhere, or what its database calls the table."""
    if export.kind.lower() in DATABASE_KINDS:
        return export.target
    place = absolute(export.target, export.folder)
    return str(local_path(place) or place)


def _made_of(export: Export, version: str) -> str:
    """Changes with the query, the options but for secrets, and the rows that the inputs hold."""
    text = export.query.text if export.query else str(export.table)
    options = json.dumps(export.masking.mask_data(dict(export.options)), sort_keys=True, default=str)
    return _digest(text, repr(export.mode), options, version)


def _left(export: Export) -> str | None:
    """Differs when somebody has changed what the export has left; None when it is gone."""
    kind, place = export.kind.lower(), place_of(export)
    if kind in DATABASE_KINDS:
        return _UNSEEN
    if kind in FILE_KINDS:
        return _files_left(Path(place))
    log = log_at(place)
    return log.identity() if log.exists() else None


def _files_left(target: Path) -> str | None:
    if not target.exists():
        return None
    inside = [target] if target.is_file() else sorted(target.rglob("*"))
    files = [each for each in inside if each.is_file() and not is_hidden(each.name)]
    found = [(each.relative_to(target).as_posix(), each.stat()) for each in files]
    return _digest(*(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in found))


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
