from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ConnectorError
from tidemill.sources.files.listing import Listing

if TYPE_CHECKING:
    from pathlib import Path


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def found(folder: Path, *patterns: str) -> list[str]:
    listing = Listing(tuple(str(folder / pattern) for pattern in patterns))
    return [file.path.removeprefix(f"{folder}/") for file in listing.files]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.csv", ["a.csv"]),
        ("*.csv", ["a.csv", "b.csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("[b].csv", ["b.csv"]),
        ("{a,x/c}.csv", ["a.csv", "x/c.csv"]),
        ("*/c.csv", ["x/c.csv", "y/c.csv"]),
        ("x", ["x/c.csv", "x/d.txt"]),
        ("x/", ["x/c.csv", "x/d.txt"]),
        ("{x,y}/c*", ["x/c.csv", "y/c.csv"]),
        ("**/*.csv", ["a.csv", "b.csv", "x/c.csv", "y/c.csv"]),
        ("x/**", ["x/c.csv", "x/d.txt"]),
        ("[^a].csv", ["b.csv"]),
        ("{a,*}.csv", ["a.csv", "b.csv"]),
        ("{x,x/c.csv}", ["x/c.csv", "x/d.txt"]),
    ],
)
def test_paths_and_patterns_name_files(tmp_path, pattern, names):
    touch(tmp_path, "a.csv", "b.csv", "x/c.csv", "x/d.txt", "y/c.csv", "_hidden.csv", ".x.csv")
    assert sorted(found(tmp_path, pattern)) == names


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    touch(tmp_path, "a[1].csv", "a1.csv", "b{2}.csv")
    assert found(tmp_path, "a[1].csv", "b{2}.csv") == ["a[1].csv", "b{2}.csv"]
    escaped = Listing((str(tmp_path / "a[1].csv"),)).for_spark()
    assert escaped[0].endswith(r"a\[1\].csv")


def test_what_readers_pass_over_is_not_listed(tmp_path):
    touch(tmp_path, "d/a.csv", "d/_SUCCESS", "d/.a.csv.crc", "d/_tidemill/x", "d/_day=1/b.csv")
    assert found(tmp_path, "d") == ["d/a.csv", "d/_day=1/b.csv"] or found(tmp_path, "d") == [
        "d/_day=1/b.csv",
        "d/a.csv",
    ]


def test_nothing_there_is_an_error_that_names_the_path(tmp_path):
    for path in (tmp_path / "no.csv", tmp_path / "*.csv", tmp_path / "no" / "*.csv"):
        with pytest.raises(ConnectorError) as error:
            assert Listing((str(path),)).roots
        assert error.value.problem == f"There is nothing at {path}."


def test_a_path_may_be_a_uri(tmp_path):
    touch(tmp_path, "a b%.csv", "b.csv")
    for uri in (f"file://{tmp_path}/a%20b%25.csv", f"file://localhost{tmp_path}/a*"):
        assert [file.base_name for file in Listing((uri,)).files] == ["a b%.csv"]


@pytest.mark.parametrize(
    ("names", "path", "code"),
    [
        (["f/day=1/a.csv", "f/b.csv"], "f", "source.uneven_partitions"),
        (["f/day=1/a.csv", "f/month=1/b.csv"], "f", "source.uneven_partitions"),
        (["f/day=1/a.csv", "f/more/b.csv"], "f", "source.uneven_partitions"),
        (["_a.csv"], "_a.csv", "source.hidden"),
        (["f/10:00.csv"], "f", "source.bad_name"),
    ],
)
def test_what_spark_would_pass_over_or_cannot_read_is_an_error(tmp_path, names, path, code):
    touch(tmp_path, *names)
    with pytest.raises(ConnectorError) as error:
        Listing((str(tmp_path / path),)).check()
    assert error.value.code == code


def test_folders_of_the_same_partitions_and_plain_ones_pass(tmp_path):
    touch(tmp_path, "p/day=1/a.csv", "p/day=2/a.csv", "n/2024/a.csv", "n/b.csv", "n/_SUCCESS")
    for name in ("p", "n", "p/day=1", "*/*"):
        Listing((str(tmp_path / name),)).check()


def test_an_empty_folder_has_no_files_and_is_no_error(tmp_path):
    assert Listing((str(tmp_path),)).files == []


def test_folders_that_are_no_partitions_are_seen(tmp_path):
    touch(tmp_path, "p/day=1/a.csv", "n/2024/a.csv", "f/a.csv")
    assert [Listing((str(tmp_path / name),)).nested for name in "pnf"] == [False, True, False]


def test_the_digest_differs_when_a_file_comes_goes_or_is_written(tmp_path):
    touch(tmp_path, "a.csv", "b.csv")

    def digest() -> str:
        return Listing((str(tmp_path / "*.csv"),)).digest("csv")

    seen = [digest()]
    assert digest() == seen[0]
    touch(tmp_path, "c.csv")
    seen.append(digest())
    (tmp_path / "c.csv").unlink()
    assert digest() == seen[0]
    (tmp_path / "b.csv").write_text("longer than before")
    seen.append(digest())
    status = (tmp_path / "a.csv").stat()
    os.utime(tmp_path / "a.csv", ns=(status.st_atime_ns, status.st_mtime_ns + 1000))
    seen.append(digest())
    assert len(set(seen)) == 4
