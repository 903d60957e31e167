"""The terms that docs/terminology.md replaces are not written: in the source, its help, the guides and the tests."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
import pytest

from tidemill.cli.main import tidemill

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "terminology.md"
ROOMS = ("src", "docs", "examples", "benchmarks", "scripts", "tests")
TEXTS = {".py", ".md", ".sql", ".toml", ".txt", ".json", ".svg"}


def _replaced() -> list[str]:
    """The right column of the table under "Wording"."""
    wording = PAGE.read_text().split("## Wording\n")[1]
    rows = [line.strip("| ").split(" | ") for line in wording.splitlines() if line.startswith("| ")]
    return [term for _, terms in rows[1:] for term in terms.split(", ")]


def _pattern(terms: list[str]) -> re.Pattern[str]:
    """Each term as whole words, wherever a line is broken; a number stands for any number, or for a value put in."""
    words = (r"\s+".join(_word(word) for word in re.sub(r"(?<=\d) \w+$", "", term).split()) for term in terms)
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(words)})(?![^\W_])", re.IGNORECASE)


def _word(word: str) -> str:
    return r"[`'\"]?(?:\d[\d.,]*|\{\})" if word.isdigit() else rf"`?{re.escape(word)}"


TERMS = _replaced()
PATTERN = _pattern(TERMS)


def _written(path: Path) -> Iterator[tuple[int, str]]:
    """What a file says to its readers, by line: of Python its texts, its comments and the names of its tests."""
    text = path.read_text()
    if path.suffix != ".py":
        yield 1, unescape(text.split("## Wording\n")[0] if path == PAGE else text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith(("test_", "Test")):
            yield node.lineno, node.name.replace("_", " ")
    yield from _comments(text)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments, those of adjoining lines as one."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if line != last + 1:
            yield first, " ".join(block)
            block, first = [], line
        block.append(token.string.lstrip("# "))
        last = line
    yield first, " ".join(block)


def _found(path: Path) -> dict[int, str]:
    """The replaced terms of a file, by line."""
    return {
        line + text.count("\n", 0, match.start()): match[0]
        for line, text in _written(path)
        for match in PATTERN.finditer(text)
    }


def _files() -> list[Path]:
    inside = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*")))
    pages = [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]  # which keeps what was once written
    return [*pages, *(path for path in inside if path.suffix in TEXTS and path.is_file())]


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from _commands(below, f"{name} {each}")


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_terms_that_are_replaced_are_written_nowhere(room: str) -> None:
    files = [path for path in _files() if path.relative_to(ROOT).parts[0] == room or (not room and path.parent == ROOT)]
    assert files
    found = {str(path.relative_to(ROOT)): _found(path) for path in files}
    assert {path: terms for path, terms in found.items() if terms} == {}


def test_no_help_text_has_a_term_that_is_replaced() -> None:
    helps = {name: command.get_help(click.Context(command)) for name, command in _commands(tidemill, "tidemill")}
    assert len(helps) > 20
    assert {name: PATTERN.findall(text) for name, text in helps.items() if PATTERN.search(text)} == {}


@pytest.mark.parametrize("term", TERMS)
def test_each_term_is_found_however_it_is_written(tmp_path: Path, term: str) -> None:
    first, _, rest = term.rpartition(" ")
    assert PATTERN.search(f"The rows, {term.capitalize()}.")
    assert PATTERN.search(f"over {first}\n    {rest}, too")
    file = tmp_path / "made.py"
    file.write_text(f'"""Doc.\n\n{term}"""\nA = ("x {first} "\n     f"{rest} {{A}}")\n# {first}\n# {rest}\n')
    assert list(_found(file)) == [3, 4, 6]
    file.write_text(f"def test_{term.replace(' ', '_').replace(':', '')}_here(): ...\n")
    assert list(_found(file)) == ([] if ":" in term else [1])


def test_a_value_that_is_put_into_a_text_counts_as_a_number(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    (term,) = [term for term in TERMS if re.fullmatch(r"\w+ \d \w+", term)]
    file.write_text(f'A = f"{term.split()[0]} {{n}} {term.split()[-1]}"\n')
    assert list(_found(file)) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "It is recommended to amend the row, and the story is with_texts untold times.",
        "less than 2 hours, no less, in one pass over the rows; a table made by hand",
        "it takes 5 s for a row, stands at one place, and the word is kept",
    ],
)
def test_other_words_are_left_alone(text: str) -> None:
    assert not PATTERN.search(text)
