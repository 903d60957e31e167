"""What is known of CSV files by their bytes, without Spark."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tidemill.errors import ConnectorError
from tidemill.sources.exact import may_hold_codes
from tidemill.sources.files.listing import Listing
from tidemill.sources.files.text import lines_are_records

if TYPE_CHECKING:
    from pathlib import Path

MANY = b"1,plain\n" * 200_000  # more than a block


def told(folder: Path, *files: bytes, **options: str) -> bool:
    for number, content in enumerate(files):
        (folder / f"{number}.csv").write_bytes(content)
    return lines_are_records(Listing((str(folder),)), options)


@pytest.mark.parametrize(
    ("content", "are_records"),
    [
        (b"", True),
        (b'id,v\n1,"a ""quoted"" text"\n', True),
        (b'id,v\n1,"one\ntwo"\n', False),
        (b'id,v\r1,"one\rtwo"\r', False),
        (MANY + b'1,"one\ntwo"', False),
        (b'1,"' + b"x" * (1 << 21) + b'\n"', False),
        (b'1,"' + b"x" * (1 << 21) + b'"\n' + MANY, True),
    ],
)
def test_a_quote_that_is_open_at_the_end_of_a_line_makes_a_record_of_several(
    tmp_path: Path, content: bytes, are_records: bool
) -> None:
    assert told(tmp_path, b"id,v\n1,a\n", content) is are_records


def test_options_have_the_last_word(tmp_path: Path) -> None:
    assert told(tmp_path, b'1,"one\n2"\n', MULTILINE="false")
    assert told(tmp_path, b'1,"one\n2"\n', quote="")
    assert not told(tmp_path, b"1,'one\n2'\n", quote="'")
    assert told(tmp_path, "1,ö\n".encode("latin-1"), charset="latin1")


def test_bytes_that_are_no_utf_8_are_shown(tmp_path: Path) -> None:
    assert told(tmp_path, b"x" * ((1 << 20) - 1) + "ö".encode())  # a letter in two blocks
    with pytest.raises(ConnectorError) as error:
        told(tmp_path, MANY + "2,Köln\n3,x\n".encode("latin-1"))
    assert str(error.value) == (
        rf"[source.not_utf8] {tmp_path}/0.csv is no UTF-8 text: it holds b'2,K\xf6ln'. Save it as UTF-8, or name its "
        'encoding: "encoding": "ISO-8859-1" in the params of its source, '
        "--option encoding=ISO-8859-1 of tidemill merge."
    )
    with pytest.raises(ConnectorError):
        told(tmp_path, "cut in a letter: ö".encode()[:-1])


@pytest.mark.parametrize("content", [b'id,v\n1,"open at the end', b'id,v\n0,"a\nb"\n1,"open\n2,x\n'])
def test_a_quote_that_never_closes_is_an_error_that_names_its_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConnectorError) as error:
        told(tmp_path, content)
    line = 2 if b"end" in content else 4
    assert error.value.code == "source.open_quote"
    assert error.value.problem.startswith(f"{tmp_path}/0.csv has a quote in line {line} that never closes")
    assert told(tmp_path, content, quote="")


def test_lines_of_wide_letters_are_left_to_the_reader_of_whole_files(tmp_path: Path) -> None:
    text = "id,v\n1,ö\n".encode("utf-16")
    assert not told(tmp_path, text, encoding="UTF-16")
    with pytest.raises(ConnectorError, match="--option encoding=UTF-16 of"):
        told(tmp_path, text)


@pytest.mark.parametrize(
    ("row", "may_hold"),
    [
        ("1,0.5,2024-01-02 09:30:00,a05,-1.0,10:05", False),
        ("1,00123", True),
        ('1,"02134"', True),
        ("1\t+4912", True),
        ("1,10d", True),
        ("1,12345678901234567", True),
        ("1," + "x" * ((1 << 20) - 10) + ",0123", True),  # in two blocks
    ],
)
def test_digits_that_may_be_no_number_are_seen(tmp_path: Path, row: str, may_hold: bool) -> None:
    (tmp_path / "a.csv").write_text(f"id,v\n{row}\n")
    assert may_hold_codes(Listing((str(tmp_path),)), {}) is may_hold


def test_what_cannot_be_read_is_left_to_spark_to_tell(tmp_path: Path) -> None:
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b'1,"one\n2"\n')[:-12])
    assert isinstance(told(tmp_path), bool)


def test_a_file_that_was_rewritten_is_looked_at_again(tmp_path: Path) -> None:
    assert told(tmp_path, b'1,"one"\n')
    assert not told(tmp_path, b'1,"one\ntwo"\n')
