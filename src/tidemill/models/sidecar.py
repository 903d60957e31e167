"""The Python file beside a model: it is run alone, and the name `metadata` in it counts."""

from __future__ import annotations

import ast
import contextlib
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import did_you_mean
from tidemill.models.document import Document
from tidemill.models.errors import ModelError
from tidemill.models.places import assigned, places_of, span_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.declare.text import Span, Text

NAME = "metadata"


def read_sidecar(text: Text) -> Document:
    """Runs the file, which leaves neither modules nor files behind. Raises `ModelError` where it gives no metadata."""
    tree = parsed(text)
    values = _run(text)
    names = assigned(tree)
    if NAME not in values:
        raise _no_metadata(text, names)
    if NAME not in names:  # made by an import, a loop or the like
        return Document(values[NAME], places_of(text, ast.Constant(None), text.span(0, 1)))
    target, value = names[NAME]
    others = {name: other for name, (_, other) in names.items() if name != NAME}
    return Document(values[NAME], places_of(text, value, span_of(text, target), others))


def gives_metadata(text: Text) -> bool:
    """Whether a Python file looks like a sidecar; it is not run."""
    try:
        return NAME in assigned(parsed(text))
    except ModelError:
        return False


def parsed(text: Text) -> ast.Module:
    """The tree of a Python file. Raises `ModelError` where it is none."""
    try:
        return ast.parse(text.content)
    except SyntaxError as bad:
        span = _at_line(text, bad.lineno or 1, (bad.offset or 1) - 1)
        raise ModelError("models.syntax", f"this is no Python: {bad.msg}", "correct it", span=span) from None
    except ValueError as bad:  # a NUL in it
        span = text.span(0, 1)
        raise ModelError("models.syntax", f"this is no Python: {bad}", "correct it", span=span) from None


def _run(text: Text) -> dict[str, object]:
    with alone(Path(text.file).absolute().parent):
        try:
            return runpy.run_path(text.file, run_name=f"tidemill sidecar {text.file}")
        except (Exception, SystemExit) as failure:  # whatever a user's code may raise
            raise failed(text, failure) from failure


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """What the file prints goes to stderr; no bytecode is written, and modules of its own folder are forgotten."""
    before, bytecode = set(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.dont_write_bytecode = bytecode
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]


def failed(text: Text, failure: BaseException) -> ModelError:
    """Running a file of the user's has failed; the line is the last of the file that had a part in it."""
    frames = [frame for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == text.file]
    line = (frames[-1].lineno if frames else None) or 1
    words = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    return ModelError(
        "models.sidecar_failed", f"running this file failed: {words}", "correct it", span=_at_line(text, line)
    )


def _no_metadata(text: Text, names: dict[str, tuple[ast.Name, ast.expr]]) -> ModelError:
    close = did_you_mean(NAME, names)
    dicts = [name for name, (_, value) in names.items() if isinstance(value, ast.Dict | ast.Call)]
    span = span_of(text, names[close][0]) if close else text.span(0, 1)
    remedy = f"did you mean {NAME}?" if close else f"write {NAME} = {dicts[-1] if dicts else '{ … }'}"
    return ModelError("models.no_metadata", f"this file gives no {NAME}", remedy, span=span)


def _at_line(text: Text, number: int, column: int | None = None) -> Span:
    """A line of the text from this column on, or all that stands in it."""
    lines = text.content.split("\n")
    number = min(number, len(lines))
    line = lines[number - 1]
    start = sum(len(each) + 1 for each in lines[: number - 1])
    if column is not None:
        return text.span(start + min(column, len(line)), start + min(column, len(line)) + 1)
    return text.span(start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
