"""docs/reference.md is what the code gives, and nothing that users can call, type or meet is missing there."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click
import pytest

from tidemill import cli
from tidemill.cli.main import tidemill

CONTEXT = click.Context(tidemill)
NAMES = tidemill.list_commands(CONTEXT)
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference.md"
FILES = {"ledger.db"}  # names of files that look like a code


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text()


def test_the_reference_is_what_the_code_gives():
    """`.venv/bin/python scripts/reference.py` writes it."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_error_code_of_the_source_is_in_the_reference(page: str):
    """A text that looks like a code of ours is one: its first word is that of others."""
    listed = set(re.findall(r"^- `([\w.<>]+)`:", page.partition("## Errors")[2], re.MULTILINE))
    assert {"merge.null_keys", "state.newer_record", "language.unknown_table", "<strategy>.outside"} <= listed
    words = {code.partition(".")[0] for code in listed}
    shapes = [re.compile(re.sub(r"<\w+>", r"\\w+", code)) for code in listed]
    written = {
        node.value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    codes = {
        text for text in written if re.fullmatch(r"[a-z_]+\.[a-z_]*[a-z]", text) and text.partition(".")[0] in words
    }
    assert {code for code in codes - FILES if not any(shape.fullmatch(code) for shape in shapes)} == set()


def test_every_error_in_the_reference_says_what_happened(page: str):
    silent = [line for line in page.splitlines() if re.fullmatch(r"- `[\w.<>]+`: ….?", line)]
    assert silent == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_is_documented(name: str, page: str):
    command = tidemill.get_command(CONTEXT, name)
    assert command is not None
    assert command.short_help
    assert command.help
    section = page.partition(f"\n#### tidemill {name}\n")[2].partition("\n#### ")[0]
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name
            assert all(flag in section for flag in param.opts), param.opts
        else:
            assert param.human_readable_name.strip("[].") in section, param.name


def test_every_command_is_in_a_section_of_the_help():
    """Those that the modules of the command line have, and no others."""
    modules = [import_module(f"tidemill.cli.{each.name}") for each in iter_modules(cli.__path__)]
    found = {each.name for module in modules for each in vars(module).values() if isinstance(each, click.Command)}
    assert found - {"tidemill"} == set(NAMES)
    assert len(NAMES) == sum(map(len, tidemill.sections.values()))
