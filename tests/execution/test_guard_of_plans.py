"""What Spark may have in one plan and not in the other of two queries that mean the same."""

from __future__ import annotations

from tidemill.execution.same_plan import _numbered

WINDOW = """Project [id#7L, at#9]
+- Filter (place#5 = 1)
   +- Window [row_number() AS place#5], [customer#8L], [at#9 DESC NULLS LAST]
      +- {}Relation [id#7L,customer#8L,at#9] parquet"""
UNION = """Union false, false
:- Project [a#1, b#2]
:  +- Join Inner, (a#1 = c#3L)
:     :- Project [a#1]
:     :  +- Filter (b#2 > 1)
:     :     +- Relation [a#1,b#2] parquet
:     +- Relation [c#3L] parquet
+- Project [c#3L]
   +- Relation [c#3L] parquet"""


def test_columns_that_a_node_has_again_make_no_difference() -> None:
    again = WINDOW.format("Project [id#7L, customer#8L, at#9, customer#8L]\n         +- ")
    assert _numbered(again) == _numbered(WINDOW.format(""))
    assert _numbered(again).count("Project") == 1


def test_columns_count_by_their_place_in_a_union_and_at_the_top() -> None:
    assert (
        _numbered(UNION)
        == """Union false, false
:- Project [a#0, b#1]
:  +- Join Inner, (a#0 = c#2)
:     :- Filter (b#1 > 1)
:     :  +- Relation [a#0,b#1] parquet
:     +- Relation [c#2] parquet
+- Project [c#2]
   +- Relation [c#2] parquet"""
    )
    assert _numbered("Project [b#2, a#1]\n+- Relation [a#1,b#2]") != _numbered(
        "Project [a#1, b#2]\n+- Relation [a#1,b#2]"
    )


def test_a_projection_with_an_expression_stays() -> None:
    computed = WINDOW.format("Project [id#7L, (customer#8L + 1) AS customer#8L, at#9]\n         +- ")
    assert _numbered(computed).count("Project") == 2


def test_columns_whose_numbers_begin_alike_stay_apart():
    one = "Project [upper(name#12) AS name#1]\n+- Relation [name#12]"
    other = "Project [upper(name#7) AS shown#3]\n+- Relation [name#7]"
    assert _numbered(one) == _numbered(other)
