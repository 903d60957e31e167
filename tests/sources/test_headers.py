"""What the headers of CSV files tell before Spark reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ConnectorError
from tidemill.sources.files.listing import Listing
from tidemill.sources.files.text import Alike, by_header

if TYPE_CHECKING:
    from pathlib import Path

WRONG = {
    "id,v,v": (
        "[source.duplicate_columns] {} has the column v twice in its header. "
        "Rename one of them there; names are matched without case."
    ),
    "id,v,V": (
        "[source.duplicate_columns] {} has the column V twice in its header. "
        "Rename one of them there; names are matched without case."
    ),
    "id,v,": (
        "[source.unnamed_column] {} has no name for its column 3 of 3. "
        "Name it in the header line; a comma at the end of the line makes a column too."
    ),
    "id;v": (
        "[source.separator] {} has one column, 'id;v': it seems that \";\" separates its columns. "
        'Say so: --option sep=";" of tidemill merge, "sep" in the params of its source; or sep="," if not.'
    ),
    "id\tv": (
        "[source.separator] {} has one column, 'id\\tv': it seems that \"\\t\" separates its columns. "
        'Say so: --option sep="\\t" of tidemill merge, "sep" in the params of its source; or sep="," if not.'
    ),
}


@pytest.mark.parametrize("header", WRONG)
def test_a_header_that_names_no_columns_apart_is_an_error(tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,x,y\n")
    with pytest.raises(ConnectorError) as error:
        by_header(Listing((str(tmp_path),)), {})
    assert str(error.value) == WRONG[header].format(tmp_path / "a.csv")


def test_a_separator_that_is_named_is_the_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;v\n")
    listing = Listing((str(tmp_path),))
    assert by_header(listing, {"Delimiter": ";"}) == [Alike((str(tmp_path),), ("id", "v"))]
    assert by_header(listing, {"sep": ","}) == [Alike((str(tmp_path),))], "a name with a sign in it is left to Spark"


def test_folders_of_partitions_leave_the_columns_to_spark(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("id,v\n1,x\n")
    assert by_header(Listing((str(tmp_path),)), {}) == [Alike((str(tmp_path),))]
