"""The decimal type that Spark gives an expression, where that is simple enough to say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm.blocks import SelectBlock, SetBlock, owner_of
from tidemill.ivm.kinds import declared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.ivm.blocks import Block, Source

Size = tuple[int, int]  # precision and scale
_MOST = 38
_FEWEST_SPARE = 6
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?")
_WHOLE: dict[str, Size] = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


def size_of(node: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> Size | None:
    """None where it is no decimal, or so large that Spark would give up digits."""
    found = _size(node, block, types)
    return found if found and found[0] <= _MOST else None


def _size(node: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> Size | None:
    match node:
        case exp.Column():
            return _size_of_column(owner_of(node, block), node.name, types)
        case exp.Paren() | exp.Neg() | exp.Alias() | exp.Min() | exp.Max():
            return size_of(node.this, block, types)
        case exp.Literal() if not node.is_string:
            return _size_of_literal(node.name)
        case exp.Cast():
            return _size_of_type(node.to.sql("spark"))
        case exp.Add() | exp.Sub() | exp.Mul():
            one, other = size_of(node.left, block, types), size_of(node.right, block, types)
            return _of_arithmetic(node, one, other) if one and other else None
        case exp.Case():
            values = [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]
            sizes = [size_of(each, block, types) for each in values if each and not isinstance(each, exp.Null)]
            return _widest([each for each in sizes if each]) if all(sizes) else None
    return None


def _size_of_column(source: Source, name: str, types: Mapping[int, Mapping[str, str]]) -> Size | None:
    if source.number is not None:
        return _size_of_type(types[source.number].get(name, ""))
    return _size_of_output(source.block, name, types) if source.block else None


def _size_of_output(block: Block, name: str, types: Mapping[int, Mapping[str, str]]) -> Size | None:
    if isinstance(block, SetBlock):
        one, other = _size_of_output(block.left, name, types), _size_of_output(block.right, name, types)
        return one if one == other else None
    return size_of(block.value(name), block, types)


def _size_of_type(text: str) -> Size | None:
    short = declared(text)
    if short in _WHOLE:
        return _WHOLE[short]
    if found := _DECIMAL.fullmatch(short):
        return int(found[1] or 10), int(found[2] or 0)
    return None


def _size_of_literal(text: str) -> Size | None:
    if not text.replace(".", "", 1).isdigit():
        return None
    whole, _, part = text.partition(".")
    return max(len(whole.lstrip("0")) + len(part), len(part), 1), len(part)


def _of_arithmetic(node: exp.Expr, one: Size, other: Size) -> Size:
    if isinstance(node, exp.Mul):
        return one[0] + other[0] + 1, one[1] + other[1]
    scale = max(one[1], other[1])
    return max(one[0] - one[1], other[0] - other[1]) + scale + 1, scale


def _widest(sizes: list[Size]) -> Size:
    scale = max(each[1] for each in sizes)
    return max(each[0] - each[1] for each in sizes) + scale, scale


def average_of(size: Size) -> tuple[Size, int] | None:
    """The type of `avg` over such values, and a number of values from which on it may be another than the quotient.

    Spark rounds the sum divided by the count once at its own scale and once more at that of the average. That is the
    same as one rounding as long as there are fewer values than 10 to the power of the difference of the scales.
    """
    precision, scale = size
    average = (precision + 4, scale + 4)
    spare = max(_MOST - (precision + 10 - scale), 6) - average[1]
    return (average, 10**spare) if average[0] <= _MOST and precision + 10 <= _MOST and spare >= _FEWEST_SPARE else None
