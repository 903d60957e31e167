"""Whether the same rows give the same values whenever they are computed, to the last bit and for any order of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm.blocks import SelectBlock, all_blocks
from tidemill.ivm.functions import aggregates_of, is_aggregate
from tidemill.ivm.kinds import kind_of
from tidemill.ivm.reading import own_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidemill.ivm.blocks import Block

_ALWAYS = (
    *(exp.Count, exp.CountIf, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, exp.ApproxDistinct),
    *(exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg),
)
_FIRM_IN_TIES = (exp.Rank, exp.DenseRank, exp.CumeDist, exp.PercentRank)


def drifting(root: Block, types: Mapping[int, Mapping[str, str]]) -> exp.Expr | None:
    """The first call whose value may differ between two computations: a sum of floats, row_number among ties."""
    for block in all_blocks(root):
        if isinstance(block, SelectBlock):
            for call in _calls(block):
                if not _is_firm(call, block, types):
                    return call
    return None


def _calls(block: SelectBlock) -> Iterator[exp.Expr]:
    parts = [*block.node.expressions, block.node.args.get("having"), block.node.args.get("order")]
    kept = [each for each in parts if each]
    yield from aggregates_of(kept)
    yield from (node for part in kept for node in own_nodes(part) if isinstance(node, exp.Window))


def _is_firm(call: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> bool:
    if not isinstance(call, exp.Window):
        return _is_exact(call, block, types)
    called = call.this
    if isinstance(called, _FIRM_IN_TIES):
        return True
    spec = call.args.get("spec")
    if spec is not None and (spec.args.get("kind") or "").upper() == "ROWS" and call.args.get("order"):
        return False
    return is_aggregate(called) and _is_exact(called, block, types)


def _is_exact(call: exp.Expr, block: SelectBlock, types: Mapping[int, Mapping[str, str]]) -> bool:
    if isinstance(call, exp.Filter):
        call = call.this
    if isinstance(call, _ALWAYS):
        return True
    if isinstance(call, exp.Sum):
        return kind_of(call.this, block, types) in {"whole", "decimal"}
    return isinstance(call, exp.Avg) and kind_of(call.this, block, types) == "decimal"  # of whole numbers: a double
