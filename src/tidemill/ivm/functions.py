"""Which functions give the same from the same arguments. One that is in no list here may be somebody's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm.refusal import NotIncremental

if TYPE_CHECKING:
    from collections.abc import Iterator

# What sqlglot has no class for. All others have one.
_SCALARS = frozenset(
    """
    aes_decrypt aes_encrypt array_repeat array_union arrays_overlap bin bround btrim cardinality conv crc32
    date_part datepart days expm1 find_in_set forall format_number from_csv from_xml get hash hours hypot
    is_valid_utf8 is_variant_null isnotnull isnull json_array_length json_tuple inline_outer log1p make_date
    make_dt_interval make_time make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat
    map_entries map_filter map_values map_zip_with mask months negate nullifzero octet_length pmod positive printf quote
    schema_of_csv schema_of_json sentences shiftrightunsigned timestamp_micros timestamp_millis
    timestamp_seconds to_csv to_time to_timestamp_ltz to_timestamp_ntz to_varchar to_variant_object to_xml
    transform_keys transform_values try_aes_decrypt try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_parse_json try_parse_url try_to_binary try_to_date
    try_to_number try_to_time try_to_timestamp try_url_decode try_variant_get url_decode url_encode
    variant_get weekday xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
    xpath_string xxhash64 years zeroifnull zip_with regexp
    """.split()  # noqa: SIM905 - a text of names is easier to read
)
_AGGREGATES = frozenset(["mean", "std", "every", "some", "any", "try_sum", "try_avg", "product", "bitmap_and_agg"])
_UNSTEADY = frozenset(["collect_list", "collect_set", "listagg", "string_agg", "histogram_numeric"])
_RUN_BOUND = (  # by a prefix of the class's name: CurrentDate, CurrentUser, SessionUser, Rand, Randn, Randstr
    *("Current", "Session", "Rand", "Localtime", "Utc", "Uuid", "Uniform", "Shuffle", "Version", "SystemUser"),
)
_DRIFTING = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.First, exp.Last, exp.AnyValue, exp.Mode, exp.ApproxQuantile)
_LOST_ORDER = (exp.ArraySort, exp.ArraySize)
_NO_CALLS = (exp.And, exp.Or, exp.Case, exp.Cast, exp.Coalesce, exp.If)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether this is the call of an aggregate function, in a window or not."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _AGGREGATES
    return isinstance(node, exp.AggFunc)


def check_calls(tree: exp.Expr, own: frozenset[str], but: list[exp.Expr]) -> None:
    """Refuses functions that may give something else the next time; `own` are those of users that do not.

    In the expressions `but` the clock and the like may be asked, and nothing else.
    """
    for node in tree.find_all(exp.Func, bfs=False):
        if not isinstance(node, _NO_CALLS) and not (_is_run_bound(node) and _is_within(node, but)):
            _check_call(node, own)


def _is_run_bound(node: exp.Func) -> bool:
    kind = type(node).__name__
    return kind.startswith(_RUN_BOUND) or (kind in {"StrToUnix", "UnixTimestamp"} and node.this is None)


def _is_within(node: exp.Expr, roots: list[exp.Expr]) -> bool:
    around: exp.Expr | None = node
    while around is not None and not any(around is each for each in roots):
        around = around.parent
    return around is not None


def _check_call(node: exp.Func, own: frozenset[str]) -> None:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
    if _is_run_bound(node):
        raise NotIncremental(f"{_spoken(node)} differs from run to run", node, _spoken(node))
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and name not in _SCALARS | _AGGREGATES | own:
        if name in _UNSTEADY:
            raise NotIncremental(f"the result of {name} depends on the order of rows", node, name)
        raise NotIncremental(f"{name} is not known to give the same result for the same arguments", node, name)
    if isinstance(node, _DRIFTING) and not isinstance(node.parent, _LOST_ORDER) and not _in_window(node):
        raise NotIncremental(f"the result of {_spoken(node)} depends on the order of rows", node, _spoken(node))
    if isinstance(node, exp.GroupConcat) and not isinstance(node.parent, exp.WithinGroup):
        raise NotIncremental(f"the result of {_spoken(node)} depends on the order of rows", node, _spoken(node))


def _in_window(node: exp.Expr) -> bool:
    around = node.parent
    while isinstance(around, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        around = around.parent
    return isinstance(around, exp.Window) and around.args.get("order") is not None


def _spoken(node: exp.Func) -> str:
    """As Spark's users write it."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    written = node.sql(dialect="spark").split("(", maxsplit=1)[0]
    return written.lower() if written.replace("_", "").isalnum() else node.sql_name().lower()


def aggregates_of(nodes: list[exp.Expr]) -> Iterator[exp.Expr]:
    """Aggregate calls that make a SELECT an aggregate: not those of windows, nor those of queries inside."""
    for node in nodes:
        for each in node.walk(prune=lambda inner: isinstance(inner, exp.Query)):
            if is_aggregate(each) and not _of_window(each):
                yield each


def _of_window(node: exp.Expr) -> bool:
    around = node.parent
    while isinstance(around, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
        around = around.parent
    return isinstance(around, exp.Window) and _is_called(around, node)


def _is_called(window: exp.Window, node: exp.Expr) -> bool:
    """`rank() OVER (ORDER BY sum(x))`: rank is called by the window, sum is not."""
    return any(each is node for each in window.this.walk())
