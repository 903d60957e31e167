"""What metadata means: the kind of a model, its strategy, its window. Aliases are read here and nowhere else."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from tidemill.errors import ArgumentError
from tidemill.frontends.pipeline.tokens import cut_at_parameters, lex
from tidemill.frontends.tables import INCREMENTAL, JOIN, SETTINGS, WINDOWED, with_settings
from tidemill.model import Text, suggestion, table
from tidemill.model.cursor import Condition, CurrentDate, StartVariable
from tidemill.model.source import as_names
from tidemill.model.strategy import (
    Append,
    DeleteInsert,
    IncrementalJoin,
    MaterializedView,
    Merge,
    MergeStrategy,
    Replace,
)
from tidemill.model.table import NullTime, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.frontends.shape import Document, Key
    from tidemill.model.cursor import Duration, MovingStart
    from tidemill.model.strategy import Strategy


def read_condition(document: Document, key: Key, text: str) -> Condition | None:
    """The condition, cut at its @names; None, and a note, where it cannot be one."""
    lexed = lex(Text("condition", text))
    problem, remedy = "", ""
    if lexed.errors:
        problem, remedy = lexed.errors[0].problem, lexed.errors[0].remedy
    elif lexed.variables:
        problem, remedy = "${…} has no meaning here", "write @name, whose value is always a value and never SQL"
    elif any(token.raw == ";" for token in lexed.tokens):
        problem, remedy = "a condition has no ; in it", "write one condition, such as day >= @start_date"
    if problem:
        document.note(key, "models.bad_condition", problem, remedy)
        return None
    return Condition(*cut_at_parameters(text), document.places.at(*key).origin)


def read_constant(document: Document, key: Key, text: str, problem: str) -> Condition | None:
    """A condition that no run gives a value to; @names in it are a `problem`."""
    found = read_condition(document, key, text)
    if found is not None and found.parameters:
        document.note(key, "models.bad_condition", problem, "write its values into the condition")
        return None
    return found


_FOR_TIMES = ("start_date", "lookback", "null_time")
_CURRENT_DATE = {"current_date", "current_date()"}
_STARTS = 'write "2024-01-31", "2024-01-31T10:30:00Z", "auto", "@name" or "CURRENT_DATE"'


def read_window(metadata: Metadata) -> Window | None:
    """None where no time column is given; then nothing may be given that needs one."""
    column = metadata.value("time_column")
    if column is None:
        for name in (name for name in _FOR_TIMES if metadata.value(name) is not None):
            metadata.note(metadata.place(name), "missing_key", f"{name} needs time_column", 'write "time_column": "…"')
        return None
    literal, moving = _start(metadata)
    return Window(column, literal, _lookback(metadata), NullTime(metadata.value("null_time", NullTime.FAIL)), moving)


def _lookback(metadata: Metadata) -> Duration | int | None:
    value = metadata.value("lookback")
    try:
        found = table.lookback(value)
    except ArgumentError as bad:
        metadata.document.pass_on(metadata.place("lookback"), bad)
        return None
    if isinstance(found, int) and found < 0:
        metadata.note(
            metadata.place("lookback"), "bad_lookback", f"a lookback of {found} looks ahead", "write it without -"
        )
    return found


def _start(metadata: Metadata) -> tuple[str | None, MovingStart | None]:
    """The start as a literal, or as what only a run knows; neither for "auto", which is the watermark."""
    text = str(metadata.value("start_date", "auto")).strip()
    if text.lower() == "auto":
        return None, None
    if text.lower() in _CURRENT_DATE:
        return None, CurrentDate()
    place = metadata.document.places.at(*metadata.place("start_date")).origin
    if text.startswith("@"):
        pieces, names = cut_at_parameters(text)
        if pieces == ("", ""):
            return None, StartVariable(names[0], place)
    elif _is_literal(text):
        return text, None
    remedy = suggestion(text, ("auto", "CURRENT_DATE"), _STARTS)
    metadata.note(metadata.place("start_date"), "bad_start", f"start_date cannot be {text}", remedy)
    return None, None


def _is_literal(text: str) -> bool:
    """A date, a timestamp or a number; whether it fits the time column only its type can tell."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return _is_number(text)
    return True


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


_TAKEN_BY = {name: setting.kinds for name, setting in SETTINGS.items() if setting.kinds}


class Metadata:
    """Reads metadata whose types are right. What does not go together is noted in its document."""

    def __init__(self, document: Document, given: Mapping[str, Any]) -> None:
        self.document, self.given = document, given
        self.kind = self._kind()
        self._check_levels()
        self._check_layout()
        self.window = read_window(self) if self.kind in WINDOWED else None
        self.strategy = self._strategy()

    def value(self, name: str, otherwise: Any = None) -> Any:
        """What is given by this name, at whichever level."""
        key = next(iter(self._given(name)), None)
        return otherwise if key is None else _get(self.given, key)

    def names(self, name: str) -> tuple[str, ...]:
        return as_names(self.value(name)) or ()

    def place(self, name: str) -> Key:
        """The key under which the name is given; where it is not, the section that could have it."""
        return next(iter(self._given(name)), self.section_key)

    @property
    def section_key(self) -> Key:
        return ("incremental", self.kind) if self.kind in INCREMENTAL else ()

    def note(self, key: Key, code: str, problem: str, remedy: str) -> None:
        self.document.note(key, f"models.{code}", problem, remedy)

    # the kind, and what belongs to it

    def _kind(self) -> str:
        """view, table, or a strategy; nothing where that is not known."""
        kind: str = self.given.get("materialization", "table")
        if (kind == JOIN) is not (JOIN in self.given):
            return self._half_a_join(kind)
        section: Mapping[str, Any] | None = self.given.get("incremental")
        if kind != "incremental":
            if section is not None:
                problem = f"incremental is given, and the materialization is {kind}"
                self.note(("incremental",), "misplaced_key", problem, 'write "materialization": "incremental"')
            return kind
        if section is None:
            remedy = 'write "incremental": {"strategy": "merge", "merge": { … }} beside it'
            self.note(("materialization",), "missing_key", "an incremental model needs a strategy", remedy)
            return ""
        strategy: str = section["strategy"]
        if strategy not in section:
            problem, remedy = f"{strategy} needs its settings", f'write "{strategy}": {{ … }} beside it'
            self.note(("incremental", "strategy"), "missing_key", problem, remedy)
            return ""
        return strategy

    def _half_a_join(self, kind: str) -> str:
        if kind == JOIN:
            remedy = 'write "incremental_join": {"a": …, "b": …} beside it'
            self.note(("materialization",), "missing_key", "an incremental join needs its sides", remedy)
        else:
            problem = f"{JOIN} is given, and the materialization is {kind}"
            self.note((JOIN,), "misplaced_key", problem, f'write "materialization": "{JOIN}"')
        return ""

    def _check_levels(self) -> None:
        for name, kinds in _TAKEN_BY.items():
            given = self._given(name)
            if given and self.kind and self.kind not in kinds:
                what = self.kind if self.kind in (*INCREMENTAL, JOIN) else f"a {self.kind}"
                self.note(given[0], "misplaced_key", f"{what} takes no {name}", f"it is for {', '.join(kinds)}")
            if len(given) > 1:
                self.note(given[-1], "repeated_key", f"{name} is given twice", "keep one of them")

    def _check_layout(self) -> None:
        if self.names("partition_by") and self.names("cluster_by"):
            problem = "a table is partitioned or clustered, not both"
            self.note(("cluster_by",), "two_layouts", problem, "keep partition_by or cluster_by")

    def _given(self, name: str) -> list[Key]:
        """The keys under which it is given, the innermost first."""
        levels: list[Key] = [self.section_key, ("incremental",), ()] if self.kind in INCREMENTAL else [()]
        return [(*level, name) for level in levels if name in _get(self.given, level)]

    # strategies

    def _strategy(self) -> Strategy | None:
        """None for a view, and where it cannot be made."""
        try:
            bare = self._bare_strategy()
            only_newer = self._only_newer() if self.kind == "merge" else None
            given = {name: value for name in SETTINGS if (value := self.value(name)) is not None}
            return None if bare is None else with_settings(bare, given, only_newer)
        except ArgumentError as bad:
            self.document.pass_on(self.place("unique_key" if bad.code.startswith("merge.") else "max_shrink"), bad)
            return None

    def _bare_strategy(self) -> Strategy | None:
        """What makes it the strategy that it is, without the settings that others take too."""
        match self.kind:
            case "table":
                return Replace()
            case "materialized_view":
                return MaterializedView()
            case "append":
                return Append()
            case "merge":
                return Merge(self.names("unique_key"))
            case "full_merge":
                return Merge(self.names("unique_key"), MergeStrategy.FULL_MERGE)
            case "delete_insert":
                return self._delete_insert()
            case "incremental_join":
                return IncrementalJoin()
            case _:
                return None

    def _only_newer(self) -> str | None:
        given = self.value("only_newer", otherwise=False)
        if given is not True:
            return given or None
        if self.window is None:
            self.note(
                self.place("only_newer"),
                "missing_key",
                "only_newer needs time_column",
                "give one, or the name of a column",
            )
            return None
        return self.window.time_column

    def _delete_insert(self) -> DeleteInsert:
        if self.value("where_condition") is None:
            if self.window is None:
                problem = "delete_insert needs where_condition or time_column"
                self.note(self.section_key, "missing_key", problem, 'write "where_condition": "day >= @start_date"')
            return DeleteInsert()
        condition = read_condition(self.document, self.place("where_condition"), self.value("where_condition"))
        if condition is None or not condition.parameters:
            return DeleteInsert(condition.text if condition else None)
        return DeleteInsert(condition=condition)


def _get(metadata: Mapping[str, Any], key: Key) -> Any:
    found: Any = metadata
    for part in key:
        found = found[part]
    return found
