"""Incremental view maintenance: from a query, and which of its tables changed, to the SQL that brings it up to date.

This is the door; nothing behind it knows Spark.

    view = analyse(text, {"orders": {"o_orderkey": "bigint", …}, …})      # raises NotIncremental
    rule = view.rule(frozenset({"orders"}))                               # raises NotIncremental

`NotIncremental` has `reason` (a part of a sentence), `line`, `column`, `word` (a place in the text, or None).

`view` has `text` (the query as it was understood, for the guard), `output` (its columns as `text` names them: those
without an alias are `_col_2`, where Spark says `count(1)`; compare by place), `occurrences` (`number`, `table`,
`used`), `tables`, `used(table)`, `blocks` (a tree of `kind`, `text`, `tables`, `children`), `volatile` (output columns
that are made by the clock and the like alone), `rule(changed)`, `rules(changed)` (all that fit, best first; they
differ in their key, so the execution may choose the one with the fewest keys).

A rule has `name`, `key` and `why` for people, `on` and `by_content`, and SQL texts made from `names` (`Names`):

    Linear      signed(names)                view.output + __w
    Local       keys(names)                  distinct k0, k1, … of the changed rows, to be settled as names.keys
                new(names, near)             the rows of these keys; on[i] is the output column of k_i
                signed(names, near)          view.output + __w; for by_content, where `on` is empty
    Telescoped  signed([names], [near])      one of each for each of its `terms`, which are Linear or Local
    Grouped     keys([names], [near])        one of each for each of its `terms`: the groups, to be settled
                new(names, near)             the rows of the groups that are names.keys here
    Summed      initial(names)               the whole state (`state` are its columns), at a full refresh
                change([names], [near])      what comes to the state; to be settled
                merged(state, change)        new rows of its groups (`key_columns`), n = 0 where gone
                impossible(state)            SQL that has to count 0, else the state is not that of these inputs
                beyond(state)                None, or SQL that has to count 0, else another rule is due; of a change too
                groups(change)               the keys of the view's rows to replace; those of `on`
                visible(state, keys)         the view's rows of these keys; all rows where `on` is empty

Linear and Local have `terms` too, themselves. So for every rule: for each term that is local, settle `term.keys(names)`
and give it names with these keys.

`near(column, n)` gives a condition in Spark SQL on the column (its SQL, such as "`_u`.`l_orderkey`") that all values
of the key n meet, NULL included, or None. All texts take `dialect="spark"`. Names of relations are one identifier each.
The columns of `names.changes(table)` are `view.used(table)` and `__w`.

Columns in `volatile` are outside of the content of rows with `__w`: net and compare without them.

Cut tables are never needed for exactness where they did not change, but pieces outside of the keys are computed from
parts only: an error of arithmetic that only these raise calls for a full refresh.
"""

from tidemill.ivm.grouped import Grouped
from tidemill.ivm.reading import Occurrence
from tidemill.ivm.refusal import NotIncremental, UnknownColumn
from tidemill.ivm.rendering import Names
from tidemill.ivm.rules import Linear, Local, Telescoped
from tidemill.ivm.sums import Summed
from tidemill.ivm.view import BlockText, Rule, ViewQuery, analyse, check_text

__all__ = [
    "BlockText",
    "Grouped",
    "Linear",
    "Local",
    "Names",
    "NotIncremental",
    "Occurrence",
    "Rule",
    "Summed",
    "Telescoped",
    "UnknownColumn",
    "ViewQuery",
    "analyse",
    "check_text",
]
