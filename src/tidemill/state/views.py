"""The record of a view: a small JSON file beside the place where a table of its name would be.

It says that the name was a view at its last run. Deleting it means that the view's query is checked once more.
"""

from __future__ import annotations

import contextlib

from tidemill.contracts.records import Record
from tidemill.errors import StateError
from tidemill.state.folders import file_system


def view_record(path: str) -> Record | None:
    """What the last run of the view at this path has left; None where there was none, or its file is not whole."""
    files, file = file_system(_beside(path))
    try:
        with files.open_input_stream(file) as stream:
            return Record.from_json(stream.read().decode())
    except (OSError, ValueError, TypeError):
        return None


def keep_view(path: str, record: Record) -> None:
    """Keeps the record in the place of the one before, whole or not at all."""
    files, file = file_system(_beside(path))
    try:
        files.create_dir(file.rpartition("/")[0], recursive=True)
        with files.open_output_stream(f"{file}.new") as stream:
            stream.write(record.to_json().encode())
        files.move(f"{file}.new", file)
    except OSError as failure:
        raise StateError(
            "view.no_record",
            f"The record of {record.table} cannot be written to {_beside(path)}: {failure}",
            "Make its folder one that can be written to, and run again.",
        ) from failure


def forget_view(path: str) -> None:
    """Takes the record away: the name is that of a table now."""
    files, file = file_system(_beside(path))
    with contextlib.suppress(FileNotFoundError):
        files.delete_file(file)


def _beside(path: str) -> str:
    folder, slash, name = path.rstrip("/").rpartition("/")
    return f"{folder}{slash}_{name}.view.json"
