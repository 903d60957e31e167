"""The picture of a graph: every box once, nothing on top of another, and names that stay names."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.graphs.picture import Box, Picture, Shape, mermaid, tree
from tidemill.graphs.svg import Size, layout, svg

SVG = "{http://www.w3.org/2000/svg}"
ODD = "a<b>&\"c'`] --> end; &lt; %% {x}\n\x01\ud800 日本 ${y}"


def box(name: str, *reads: str, shape: Shape = Shape.TABLE, kind: str = "replace", **more: str) -> Box:
    return Box(name, name, shape, kind, reads=reads, **more)


SHOP = Picture(
    "shop",
    (
        box("orders", shape=Shape.SOURCE, kind="CSV"),
        box("raw", "orders", kind="merge upsert on id", watermark="2024-01-31", fresh="3 h ago", status="ok"),
        box("customers", shape=Shape.SOURCE, kind="CSV"),
        box("people", "customers", status="failed"),
        box("daily", "raw", "people"),
        box("big", "daily", shape=Shape.VIEW, kind="view"),
        box("out.csv", "daily", "raw", shape=Shape.EXPORT, kind="export replace"),
    ),
)


@st.composite
def pictures(draw) -> Picture:
    """Any graph of up to 15 boxes, with any names."""
    boxes: list[Box] = []
    for number in range(draw(st.integers(0, 15))):
        shape = draw(st.sampled_from(Shape)) if boxes else Shape.SOURCE
        known = [each.id for each in boxes]
        reads = draw(st.lists(st.sampled_from(known), max_size=3)) if known and shape is not Shape.SOURCE else []
        boxes.append(Box(f"b{number}", draw(st.text(max_size=70)), shape, "kind", reads=tuple(reads)))
    return Picture(draw(st.text(max_size=20)), tuple(boxes))


def test_every_box_stands_below_the_deepest_that_it_reads_and_names_the_others():
    assert [(line.text, [other.name for other in line.also]) for line in tree(SHOP)] == [
        ("◇ orders", []),
        ("└─ ■ raw", []),
        ("   └─ ■ daily", ["people"]),
        ("      ├─ □ big", []),
        ("      └─ ▷ out.csv", ["raw"]),
        ("◇ customers", []),
        ("└─ ■ people", []),
    ]


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_every_box_is_in_the_tree_once_and_with_all_that_it_reads(picture: Picture):
    lines = tree(picture)
    assert sorted(line.box.id for line in lines) == sorted(box.id for box in picture.boxes)
    for line in lines:
        beside = {other.id for other in line.also}
        assert len(set(line.box.reads) - beside) == (1 if line.box.reads else 0)


@settings(max_examples=30, deadline=None)
@given(pictures(), st.lists(st.integers(10, 300), min_size=15, max_size=15))
def test_no_box_is_on_top_of_another_and_each_is_to_the_right_of_what_it_reads(picture: Picture, widths: list[int]):
    sizes = {box.id: Size(width, 20 + width % 60) for box, width in zip(picture.boxes, widths, strict=False)}
    found = layout(picture, sizes)
    for one, other in combinations(found.spots.values(), 2):
        apart = abs(one.y - other.y) >= (one.size.height + other.size.height) / 2
        assert apart or one.x + one.size.width <= other.x or other.x + other.size.width <= one.x
    for spot in found.spots.values():
        assert 0 <= spot.x <= spot.x + spot.size.width <= found.width
        assert -0.01 <= spot.y - spot.size.height / 2 <= spot.y + spot.size.height / 2 <= found.height + 0.01
    for (start, end), way in found.ways.items():
        xs = [found.spots[start].x, *(spot.x for spot in way), found.spots[end].x]
        assert xs == sorted(set(xs))


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_an_edge_passes_no_box(picture: Picture):
    found = layout(picture, {box.id: Size(100, 30) for box in picture.boxes})
    for way in found.ways.values():
        for passing in way:
            layer = [spot for spot in found.spots.values() if spot.x == passing.x]
            assert all(abs(spot.y - passing.y) > spot.size.height / 2 for spot in layer)


def test_shapes_failures_and_facts_are_in_the_svg():
    root = ET.fromstring(svg(SHOP))
    classes = [path.get("class") for path in root.iter(f"{SVG}path") if path.get("class", "").startswith("box")]
    assert classes == [
        *("box source", "box table", "box source", "box table failed", "box table", "box view", "box export"),
    ]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:6] == ["orders", "CSV", "raw", "merge upsert on id", "up to 2024-01-31", "changed 3 h ago · ok"]
    assert texts[-1] == "shop"
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "edge"]) == 7
    assert "prefers-color-scheme: dark" in svg(SHOP)


def test_the_svg_of_nothing_is_an_svg():
    assert [text.text for text in ET.fromstring(svg(Picture("shop", ()))).iter(f"{SVG}text")] == ["shop"]


def test_a_long_name_is_cut_and_whole_in_the_tooltip():
    root = ET.fromstring(svg(Picture("shop", (box("x" * 90),))))
    assert next(root.iter(f"{SVG}text")).text == "x" * 47 + "…"
    assert [title.text for title in root.iter(f"{SVG}title")][1] == "x" * 90 + "\nreplace"


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_whatever_names_hold_the_svg_is_well_formed(picture: Picture):
    root = ET.fromstring(svg(picture))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "style", "defs", "marker", "path", "g", "text"),
    }


def test_an_odd_name_is_its_own_text_in_the_svg():
    root = ET.fromstring(svg(Picture("shop", (box(ODD),))))
    assert next(root.iter(f"{SVG}text")).text == ODD.replace("\x01", "\ufffd").replace("\ud800", "\ufffd")


def test_the_mermaid_has_a_shape_for_each_kind_and_an_arrow_for_each_edge():
    assert mermaid(SHOP) == (
        "%% shop\n"
        "flowchart LR\n"
        '  n0[("<b>orders</b><br/>CSV")]\n'
        '  n1["<b>raw</b><br/>merge upsert on id<br/>up to 2024-01-31<br/>changed 3 h ago · ok"]\n'
        '  n2[("<b>customers</b><br/>CSV")]\n'
        '  n3["<b>people</b><br/>replace<br/>failed"]:::failed\n'
        '  n4["<b>daily</b><br/>replace"]\n'
        '  n5(["<b>big</b><br/>view"]):::view\n'
        '  n6>"<b>out.csv</b><br/>export replace"]\n'
        "  n0 --> n1\n"
        "  n2 --> n3\n"
        "  n1 --> n4\n"
        "  n3 --> n4\n"
        "  n4 --> n5\n"
        "  n4 --> n6\n"
        "  n1 --> n6\n"
        "  classDef view stroke-dasharray: 4 3\n"
        "  classDef failed stroke: #cf222e, stroke-width: 2px\n"
    )


@settings(max_examples=30, deadline=None)
@given(pictures())
def test_no_name_ends_a_label_of_the_mermaid(picture: Picture):
    lines = mermaid(picture).splitlines()
    nodes = [line for line in lines if line.startswith("  n") and " --> " not in line]
    assert len(lines) == 4 + len(picture.boxes) + len(picture.edges)
    for line, each in zip(nodes, picture.boxes, strict=True):
        label = re.fullmatch(r'  n\d+(?:\[\(|\[|\(\[|>)"<b>([^"<>]*)</b><br/>kind"(?:\)\]|\]|\]\))(?::::view)?', line)
        assert label is not None
        shown = "".join(char if char.isprintable() else " " for char in each.name)
        assert html.unescape(re.sub(r"#(\d+);", r"&#\1;", label[1])) == shown


def test_an_odd_name_is_numbers_in_the_mermaid():
    lines = mermaid(Picture("a\nflowchart TD", (box('a"]; b --> c#quot; <i>`'),))).splitlines()
    assert lines[0] == "%% a flowchart TD"
    assert lines[2] == '  n0["<b>a#34;#93;#59; b --#62; c#35;quot#59; #60;i#62;#96;</b><br/>replace"]'
