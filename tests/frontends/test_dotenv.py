"""A .env file is read as shells and other tools read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ArgumentError
from tidemill.frontends.project_file import read_dotenv

if TYPE_CHECKING:
    from pathlib import Path


def read(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / ".env").write_bytes(text.encode())
    return read_dotenv(tmp_path / ".env")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X=plain", "plain"),
        ("export X=exported", "exported"),
        ("  X = spaces around  ", "spaces around"),
        ("X=", ""),
        ("X=   ", ""),
        ("X= # nothing", ""),
        ("X=a#b", "a#b"),
        ("X=a b # a comment", "a b"),
        ("X=a=b=c", "a=b=c"),
        ("X=it's", "it's"),
        ("X='single # $Y \\n'", "single # $Y \\n"),
        ("X='single' # comment", "single"),
        ('X="double # \\"quoted\\" \\n\\t\\\\ \\$Y"', 'double # "quoted" \n\t\\ $Y'),
        ('X="a \\d"', "a \\d"),
        ('X="two\nlines"', "two\nlines"),
        ("X='two\nlines'", "two\nlines"),
        ("X=postgres://u:p@h/db?x=1&y=2", "postgres://u:p@h/db?x=1&y=2"),
        ("X=${Y}", "${Y}"),
        ("X=ünï", "ünï"),
        ("X=first\nX=last", "last"),
        ("\ufeffX=mark", "mark"),
        ("X=windows\r\n", "windows"),
        ("# comment\n\n   # more\nX=1\n#X=2", "1"),
    ],
)
def test_a_value_is_what_stands_there(tmp_path, line, value):
    assert read(tmp_path, line) == {"X": value}
    assert read(tmp_path, f"A=1\n{line.lstrip(chr(0xFEFF))}\nB=2\n") == {"A": "1", "X": value, "B": "2"}


def test_no_file_and_an_empty_one_give_nothing(tmp_path):
    assert read_dotenv(tmp_path / ".env") == {}
    assert read(tmp_path, "") == {}
    assert read(tmp_path, "\n\n# only\n") == {}


@pytest.mark.parametrize("line", ["hunter2", "1X=hunter2", 'X="hunter2', "X='hunter2' tail", "X Y=hunter2", "=hunter2"])
def test_a_line_that_is_none_is_named_and_not_shown(tmp_path, line):
    with pytest.raises(ArgumentError) as failure:
        read(tmp_path, f"A=1\n\n{line}\n")
    assert (failure.value.code, failure.value.origin.line) == ("project.bad_env", 3)
    assert "hunter2" not in f"{failure.value} {failure.value.origin}"
