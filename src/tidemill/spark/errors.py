"""The one place that knows what errors of Spark, of table formats on it and of Java look like.

An error comes as a PySpark class, as a Python class of a format, as a bare Java error (classic) or as an error
condition (Connect): so it is known by class names and conditions, along the whole chain of causes.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tidemill.errors import EngineError, TableError, TidemillError
from tidemill.formats import spark_support
from tidemill.spark import disk_full, lack_of_room
from tidemill.spark.jvm import has_died, log_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GONE_CONDITIONS = ("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND")
_RULES = ("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",)  # what a table itself refuses; formats have more
MOVED = "tidemill: another writer came first"  # what a write of ours says when the table is not as it was

# Spark's wrappers: what they wrap says more than they do.
_SAYS_NOTHING = re.compile(
    r"An error occurred while calling|Job aborted|\[TASK_WRITE_FAILED\]|Exception thrown in awaitResult"
    r"|Stage cancelled|Multiple failures in stage|Writing job aborted|\[FAILED_EXECUTE_UDF\]",
)
_NAMES_A_FILE = "Encountered error while reading file"  # and not what is wrong with it
_NO_CATALOG = (
    r'Spark has no catalog \1; for tables of this project SQL needs catalog = "\1" under [warehouse] in tidemill.toml, '
    "and a function run.read."
)
_MISFIT = "Malformed records are detected"
_UNREAD = re.compile(
    rf"\[FAILED_READ_FILE\.(?:FILE_NOT_EXIST|CANNOT_READ_FILE_FOOTER|NO_HINT)\] {_NAMES_A_FILE} (\S+?)\.(?:\s|$)"
)
_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_LONGEST = 400


def is_conflict(error: BaseException) -> bool:
    """Whether another writer committed first, so that planning again may succeed."""
    formats = spark_support()
    return any(
        name.rpartition(".")[2].rpartition("$")[2] in formats.conflicts
        or condition.startswith(formats.conflict_conditions)
        or MOVED in message
        for name, condition, message in _chain(error)
    )


def file_is_gone(error: BaseException) -> bool:
    """Whether a file has gone between its listing and its reading, so that looking again may succeed."""
    return any(
        condition.startswith(_GONE_CONDITIONS)
        or "FileNotFoundError" in message
        or name.endswith("FileNotFoundException")
        for name, condition, message in _chain(error)
    )


def has_lost_files(error: BaseException) -> bool:
    """Whether a version cannot be restored, because its files were removed."""
    lost = spark_support().lost_files
    return any(text in message for _, _, message in _chain(error) for text in lost)


def no_room(error: BaseException) -> str | None:
    """What the system said of a full disk, where that is the cause; wrappers around it speak of other things."""
    return next((told for _, _, message in _chain(error) if (told := lack_of_room(message))), None)


def unread_file(throwable: Any) -> tuple[str, str] | None:
    """The path of the file that Spark could not read, and why, if that is what a Java error is about."""
    messages = [message for _, _, message in _java_chain(throwable) if message.strip()]
    for place, message in enumerate(messages, start=1):
        if found := _UNREAD.search(message):
            return unquote(urlsplit(found[1]).path), _clean(messages[place] if place < len(messages) else message)
    return None


def unparsed_at(error: BaseException) -> tuple[int, int, str] | None:
    """Line (from 1), column (from 0) and word at which Spark could not parse a text, if that is what happened."""
    for _, condition, message in _chain(error):
        place = _PLACE.search(message) if condition.startswith("PARSE_") else None
        if place:
            near = re.search(r"at or near '([^']*)'", message)
            return int(place[1]), int(place[2]), near[1] if near else ""
    return None


def as_tidemill(error: BaseException, *, doing: str) -> TidemillError:
    """The error as a user should see it: `doing` ("merging into orders") failed, and why, in one line."""
    if isinstance(error, TidemillError):
        return error
    log = log_file()
    if log:
        _keep(error, log)
    if has_died():
        return EngineError(
            "engine.jvm_died",
            f"{doing} failed: Spark's Java process has ended.",
            f"If memory ran out, give it more (TIDEMILL_DRIVER_MEMORY=4g); its last words are in {log}.",
        )
    if full := no_room(error):
        return disk_full(doing, full)
    rules = (*_RULES, *spark_support().refusals)
    if any(condition == _GONE_CONDITIONS[0] for _, condition, _ in _chain(error)):
        return TableError(
            "table.files_gone",
            f"{doing} failed: files that were there when it began have gone. {one_line(error)}",
            "Somebody has written to the table meanwhile. Read it again.",
        )
    if any(condition.startswith(rules) for _, condition, _ in _chain(error)):
        return TableError(
            "table.refuses",
            f"{doing} failed: {one_line(error)}",
            "The table has this rule: correct the rows in the source, or change the table. It is unchanged.",
        )
    return EngineError(
        "engine.spark_failed",
        f"{doing} failed: {one_line(error)}",
        f"Spark's own words are in {log or 'the log of your Spark session'}.",
    )


def spark_failures() -> tuple[type[Exception], ...]:
    """What Spark raises; for an `except`, which asks only when something was raised."""
    from tidemill.spark.session import SPARK_FAILURES  # noqa: PLC0415  imports PySpark

    return SPARK_FAILURES


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of Spark, of table formats and of Java that leave the block are ours."""
    try:
        yield
    except spark_failures() as error:
        raise as_tidemill(error, doing=doing) from error
    except OSError as error:
        if isinstance(error, ConnectionError) or no_room(error):  # PySpark writes the rows of a frame to a file
            raise as_tidemill(error, doing=doing) from error
        raise


def _keep(error: BaseException, log: Path) -> None:
    """Not every error reaches Spark's log by itself."""
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as lines:
        lines.writelines(traceback.format_exception(error))


def condition_of(error: BaseException) -> str | None:
    """The first of Spark's error conditions in the chain of causes, such as PATH_NOT_FOUND."""
    return next((condition for _, condition, _ in _chain(error) if condition), None)


def _chain(error: BaseException) -> Iterator[tuple[str, str, str]]:
    """Class name, error condition and message of the error and of all its causes, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        for kind in type(current).__mro__[:-1]:  # a format's own error may be of a class of conflicts
            yield kind.__name__, _condition(current), _message(current)
        yield from _java_chain(_java_origin(current))
        current = current.__cause__


def _java_chain(throwable: Any) -> Iterator[tuple[str, str, str]]:
    for _ in range(20):  # a chain of causes may be a ring
        if throwable is None:
            return
        text = str(throwable.getMessage() or "")
        yield throwable.getClass().getName(), _java_condition(throwable) or _tag(text), text
        throwable = throwable.getCause()


def _java_condition(throwable: Any) -> str:
    """What a Java error of Spark's says itself; others have no such method."""
    with contextlib.suppress(Exception):
        return str(throwable.getCondition() or "")
    return ""


def _java_origin(error: BaseException) -> Any:
    """The Java error behind a Python one: py4j's own, or the one that PySpark has captured."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _condition(error: BaseException) -> str:
    get = getattr(error, "getCondition", None)
    return (get() if get else None) or _tag(_message(error))


def _tag(text: str) -> str:
    found = re.match(r"\s*\[([A-Z][A-Z0-9_.]+)\]", text)
    return found.group(1) if found else ""


def _message(error: BaseException) -> str:
    if _java_origin(error) is not None and hasattr(error, "java_exception"):
        return ""  # py4j's text is a stack trace; the Java error follows in the chain
    return str(error)


def one_line(error: BaseException) -> str:
    """What went wrong, without stack trace, plan and tags."""
    if full := no_room(error):
        return full
    messages = [message for _, _, message in _chain(error) if message.strip()]
    telling = [message for message in messages if not _SAYS_NOTHING.match(message)]
    names = [name.rpartition(".")[2] for name, _, _ in _chain(error)]
    told = _clean(next(iter(telling or messages), "")) or names[0]
    if not told.startswith(_NAMES_A_FILE):
        return told
    return f"{told} {_why(telling)}".rstrip()


def _why(telling: list[str]) -> str:
    """What is wrong with a file; of a row that does not fit, Spark tells apart which of its values does not."""
    lines = dict.fromkeys(map(_clean, telling))
    first, *more = [line for line in lines if not line.startswith(_NAMES_A_FILE)] or [""]
    return f"{first} {more[0]}" if more and first.startswith(_MISFIT) else first


def _last_of_traceback(lines: list[str]) -> str:
    """What a Python worker's traceback ends with: `ZeroDivisionError: division by zero`."""
    if "Traceback (most recent call last):" not in lines:
        return ""
    after = lines[lines.index("Traceback (most recent call last):") + 1 :]
    return next((line for line in after if line and not line[0].isspace()), "")


def _with_list(lines: list[str]) -> str:
    """The first line, with the list that it announces."""
    told = itertools.takewhile(lambda line: line.startswith(" - "), lines[1:])
    items = [line.removeprefix(" - ") for line in told] if lines[0].rstrip().endswith(":") else []
    return f"{lines[0].rstrip()} {', '.join(items)}." if items else lines[0]


def _unlike_columns(message: str) -> str:
    """What keeps the schemas of files from being merged, of the two that Spark tells in whole."""
    told = re.findall(r'"STRUCT<(.*)>"', message) if "[CANNOT_MERGE_SCHEMAS]" in message else []
    if len(told) != 2:  # noqa: PLR2004
        return ""
    one, other = (dict(column.split(": ", 1) for column in text.split(", ") if ": " in column) for text in told)
    unlike = [f"{name} is {kind} and {other[name]}" for name, kind in one.items() if other.get(name, kind) != kind]
    return f"Files have columns of unlike types: {', '.join(unlike)}." if unlike else ""


def _clean(message: str) -> str:
    """The first line, without Spark's tag, SQLSTATE, position and plan, and of a bearable length."""
    lines = message.strip().splitlines() or [""]
    line = _unlike_columns(message) or _last_of_traceback(lines) or _with_list(lines)
    line = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )?\[[A-Z][A-Z0-9_.]+\]\s*", "", line)
    line = re.sub(r"^The \S+@[0-9a-f]+ datasource", "The table's format", line)
    line = re.sub(r"^\w+ requires a single-part namespace, but got `([^`]+)`\.\S*", _NO_CATALOG, line)
    line = re.sub(r"\s*SQLSTATE: \w{5}.*$", "", line).strip()
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
