"""Types as far as the rules need them: the declared type of a column that is only passed on, and what is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from tidemill.ivm.blocks import SelectBlock, SetBlock, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.ivm.blocks import Block, Source

Kind = Literal["whole", "decimal", "float", "other", "null"]

_WHOLE = {"tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"}
_SPELLINGS = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}
_KEYS = {"bigint", "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary"}


_LIKE_ARGUMENT = (exp.Paren, exp.Neg, exp.Abs, exp.Sum, exp.Min, exp.Max, exp.Alias, exp.Filter)
_JOINING = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Coalesce, exp.Case, exp.If, exp.Distinct)
_WHOLE_CALLS = (
    *(exp.Count, exp.CountIf, exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.Hour),
    *(exp.Minute, exp.Quarter, exp.WeekOfYear, exp.Length, exp.DateDiff, exp.StrPosition),
)
_OTHER_CALLS = (
    *(exp.Substring, exp.Upper, exp.Lower, exp.Trim, exp.Concat, exp.ConcatWs, exp.Pad, exp.Left, exp.Right),
    *(exp.TimestampTrunc, exp.DateTrunc, exp.TsOrDsToDate, exp.TsOrDsAdd, exp.TimeToStr, exp.LastDay, exp.AddMonths),
    *(exp.SHA, exp.SHA2, exp.MD5, exp.Initcap, exp.Replace, exp.RegexpReplace, exp.RegexpExtract, exp.SplitPart),
    *(exp.Connector, exp.Predicate, exp.Not, exp.Boolean),
)


def declared(text: str) -> str:
    """A type in one spelling."""
    short = "".join(text.lower().split())
    return _SPELLINGS.get(short, short)


def can_be_key(text: str | None) -> bool:
    """Whether equal means the same for values of this type: not for floats."""
    if text is None:
        return False
    base = text.split("(")[0]
    return base in _KEYS or base == "decimal"


def can_be_counted(text: str) -> bool:
    """Whether Spark can group by such values, so that equal rows can be counted."""
    return "map<" not in declared(text) and "variant" not in declared(text)


def type_of(source: Source, name: str, types: Mapping[int, Mapping[str, str]]) -> str | None:
    """The type of a column as a key, where no expression has changed it on the way.

    Whole numbers of all sizes are one type: equality compares them as numbers, whatever their sizes are.
    """
    if source.number is not None:
        found = types[source.number].get(name)
        return _family(found) if found else None
    return output_type(source.block, name, types) if source.block else None


def _family(text: str) -> str:
    base = declared(text).split("(")[0]
    if base in _WHOLE:
        return "bigint"
    return "string" if base == "varchar" else declared(text)


def output_type(block: Block, name: str, types: Mapping[int, Mapping[str, str]]) -> str | None:
    if isinstance(block, SetBlock):
        place = block.left.names.index(name)
        left = output_type(block.left, name, types)
        return left if left == output_type(block.right, block.right.names[place], types) else None
    value = block.value(name)
    return type_of(owner_of(value, block), value.name, types) if isinstance(value, exp.Column) else None


def kind_of(node: exp.Expr | None, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> Kind | None:
    """What arithmetic on this value means; None where that is not known, so that it may be a float."""
    if isinstance(node, exp.Column):
        return _kind_of_column(owner_of(node, block), node.name, types)
    if isinstance(node, _LIKE_ARGUMENT):
        return kind_of(node.this, block, types)
    if isinstance(node, _JOINING):
        return _joined(*(kind_of(each, block, types) for each in _values_of(node)))
    return _kind_by_itself(node, block, types)


def _kind_by_itself(node: exp.Expr | None, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> Kind | None:
    match node:
        case exp.Literal():
            return _kind_of_literal(node)
        case exp.Null():
            return "null"
        case exp.Cast():
            return kind_of_type(node.to.sql("spark"))
        case exp.Div():
            both = _joined(kind_of(node.left, block, types), kind_of(node.right, block, types))
            return both if both == "decimal" else "float"
        case exp.Avg():
            return "decimal" if kind_of(node.this, block, types) == "decimal" else "float"
    if isinstance(node, _WHOLE_CALLS):
        return "whole"
    return "other" if isinstance(node, _OTHER_CALLS) else None


def _values_of(node: exp.Expr) -> list[exp.Expr]:
    """Those of which the expression is one, or which it combines."""
    match node:
        case exp.Binary():
            return [node.left, node.right]
        case exp.Coalesce():
            return [node.this, *node.expressions]
        case exp.Case():
            return [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default") or exp.Null()]
        case exp.If():
            return [node.args["true"], node.args.get("false") or exp.Null()]
    return list(node.expressions) if len(node.expressions) == 1 else [exp.Star()]


def _kind_of_column(source: Source, name: str, types: Mapping[int, Mapping[str, str]]) -> Kind | None:
    if source.number is not None:
        found = types[source.number].get(name)
        return kind_of_type(found) if found else None
    return _kind_of_output(source.block, name, types) if source.block else None


def _kind_of_output(block: Block, name: str, types: Mapping[int, Mapping[str, str]]) -> Kind | None:
    if isinstance(block, SetBlock):
        other = block.right.names[block.left.names.index(name)]
        return _joined(_kind_of_output(block.left, name, types), _kind_of_output(block.right, other, types))
    return kind_of(block.value(name), block, types)


def kind_of_type(text: str) -> Kind:
    base = declared(text).split("(")[0]
    if base in _WHOLE:
        return "whole"
    if base in {"decimal", "dec", "numeric"}:
        return "decimal"
    return "float" if base in {"float", "double", "real"} else "other"


def _kind_of_literal(node: exp.Literal) -> Kind:
    if node.is_string:
        return "other"
    written = node.name.lower()
    if written.isdigit():
        return "whole"
    return "decimal" if written.replace(".", "", 1).isdigit() else "float"


def _joined(*kinds: Kind | None) -> Kind | None:
    """Of several values that become one; numbers beside anything else are not known."""
    known = {each for each in kinds if each != "null"}
    if None in known:
        return None
    if "float" in known:
        return "float"
    if "other" in known:
        return "other" if known == {"other"} else None
    return "decimal" if "decimal" in known else "whole"
