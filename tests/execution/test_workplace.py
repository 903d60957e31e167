from __future__ import annotations

import pytest

from tidemill.execution.exports.files import swap, workplace


def hidden(folder) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith(".")]


def test_a_new_folder_takes_the_place_of_the_old_one(tmp_path):
    target = tmp_path / "out"
    for content in ("first", "second"):
        with workplace(target) as place:
            (place / "new").mkdir()
            (place / "new" / "file").write_text(content)
            swap(place / "new", target, place)
    assert (target / "file").read_text() == "second"
    assert hidden(tmp_path) == []


def test_when_it_fails_the_old_one_stays_and_nothing_is_left(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "file").write_text("old")
    with pytest.raises(OSError, match="No such file"), workplace(target) as place:
        swap(place / "new", target, place)
    assert (target / "file").read_text() == "old"
    assert hidden(tmp_path) == []


def test_what_a_killed_export_left_is_removed_and_its_old_target_goes_back(tmp_path):
    left = tmp_path / ".out.tidemill-1"
    (left / "before").mkdir(parents=True)
    (left / "before" / "file").write_text("old")
    (tmp_path / ".other.tidemill-1").mkdir()
    with workplace(tmp_path / "out"):
        assert (tmp_path / "out" / "file").read_text() == "old"
        assert not left.exists()
    assert hidden(tmp_path) == [".other.tidemill-1"]


def test_the_workplace_of_an_export_that_still_runs_is_left_alone(tmp_path):
    with workplace(tmp_path / "out") as one, workplace(tmp_path / "out") as other:
        assert one.exists()
        assert one != other
