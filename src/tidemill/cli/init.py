"""`tidemill init`: a project that runs as it is."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from tidemill.cli import render
from tidemill.cli.options import examples, output
from tidemill.errors import ArgumentError

NEXT = ("tidemill run", "cp day2/*.csv data/orders/ && tidemill run")
_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_TEXTS = {
    "tidemill.toml": "tidemill.toml",
    "pipelines/shop.sql": "pipelines/shop.sql",
    "README.md": "README.md",
    ".gitignore": "gitignore",  # by its own name it would act on the package it lies in
}


@click.command(
    short_help="Make a project that runs as it is.",
    epilog=examples(
        "tidemill init shop && cd shop && tidemill run",
    ),
)
@click.argument("name")
@output
def init(name: str, form: str, quiet: bool) -> None:
    """Make a folder NAME with a pipeline, sample data and a second day of data."""
    folder = _free(name)
    files = _files(name)
    _write(folder, files)
    if form == "json":
        render.document({"project": name, "path": str(folder.absolute()), "files": list(files), "next": _next(name)})
    elif not quiet:
        _show(name, files)


def _free(name: str) -> Path:
    """The folder to be made; it may be there if nothing is in it."""
    if not _NAME.fullmatch(name):
        raise ArgumentError(
            "init.bad_name",
            f"{name!r} is no name for a project.",
            "Name it in letters, digits, - and _, beginning with a letter, such as shop.",
        )
    folder = Path(name)
    if folder.is_dir() and not any(folder.iterdir()):
        return folder
    if folder.exists() or folder.is_symlink():
        kind = "a folder that is not empty" if folder.is_dir() else "a file"
        raise ArgumentError("init.exists", f"{name} is {kind}.", "Choose another name. Nothing was written.")
    return folder


def _files(name: str) -> dict[str, str]:
    """What is in a new project, by path."""
    from tidemill.cli import sample  # noqa: PLC0415

    starter = resources.files("tidemill.cli") / "starter"
    texts = {path: starter.joinpath(kept).read_text(encoding="utf-8") for path, kept in _TEXTS.items()}
    return {path: text.replace("{name}", name) for path, text in texts.items()} | {
        "data/orders/day1.csv": sample.as_csv(sample.ORDERS, sample.first_month()),
        "data/customers.csv": sample.as_csv(sample.CUSTOMERS, sample.customers()),
        "day2/orders.csv": sample.as_csv(sample.ORDERS, sample.next_day()),
    }


def _write(folder: Path, files: dict[str, str]) -> None:
    try:
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise ArgumentError(
            "init.cannot_write",
            f"{folder} could not be written: {failure.strerror or failure}.",
            "Choose a place where you may write, and remove what is there of it.",
        ) from failure


def _next(name: str) -> list[str]:
    return [f"cd {name}", *NEXT]


def _show(name: str, files: dict[str, str]) -> None:
    render.say(f"{render.INDENT}✓ {name} created: {len(files)} files. Next:")
    for command in _next(name):
        render.say(f"{render.INDENT * 2}{command}")
