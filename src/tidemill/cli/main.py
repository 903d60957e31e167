"""The command `tidemill`: its commands, and how every one of them ends."""

from __future__ import annotations

import difflib
import itertools
import logging
import os
import re
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from tidemill import cli
from tidemill.cli import render
from tidemill.cli.render import show_log
from tidemill.errors import ArgumentError, TidemillError
from tidemill.spark import disk_full, lack_of_room, log_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Sections = Mapping[str, Sequence[tuple[str, str, str]]]

INTERRUPTED = 130  # what shells expect after Ctrl-C
EXAMPLES = """\b
Examples:
  tidemill init shop && cd shop && tidemill run
  tidemill merge new_orders.csv lake/orders --on order_id
  tidemill history lake/orders
  tidemill restore lake/orders --to 3

\b
Completion, in ~/.bashrc (zsh_source and fish_source are for other shells):
  eval "$(_TIDEMILL_COMPLETE=bash_source tidemill)"
"""


# Every command, by what it is about, and there in the order in which a newcomer needs them: its name, the module of
# `tidemill.cli` that has it, and what it does in one line. A module is loaded when its command is asked for.
SECTIONS = {
    "Projects and pipeline files": (
        ("init", "setup", "Make a project that runs as it is."),
        ("run", "run", "Bring tables up to date."),
        ("plan", "plan", "Show what a run would do, and why."),
        ("explain", "explain", "Show how tables are brought up to date, and what prevents it."),
        ("validate", "plan", "Find everything that is wrong without Spark."),
        ("verify", "verify", "Prove that tables equal a full run over their sources."),
        ("status", "status", "Show rows, watermarks, last runs, and what was saved."),
        ("runs", "history", "Show past runs, and what one of them did and why."),
        ("list", "plan", "Show what is declared."),
        ("graph", "graph", "Show what reads what, and how fresh it is."),
        ("compile", "plan", "Show the statements that a run would send."),
        ("state", "status", "Show hashes, last processed values and versions."),
        ("test", "verify", "Run the checks of tables on all their rows."),
        ("suggest", "suggest", "Propose how sources can be read incrementally."),
        ("join-stats", "suggest", "Show how far apart the matches of a join come."),
    ),
    "Watermarks": (
        ("show-watermarks", "watermarks", "Show how far sources have been read."),
        ("set-watermark", "watermarks", "Read a source from another value on."),
        ("reset-watermark", "watermarks", "Read a source from the beginning."),
    ),
    "Tables, by name or path": (
        ("merge", "merge", "Merge rows of files into a table, by their keys."),
        ("show", "tables", "Show the first rows of a table or a view."),
        ("history", "history", "Show the commits of a table, with counts and watermarks."),
        ("backup", "maintenance", "Copy a table, to go back to it later."),
        ("restore", "maintenance", "Take a table back to an older version, or to a backup."),
        ("drop", "tables", "Remove a table with all its history."),
    ),
    "Upkeep of tables, and of datasets, which are folders of Parquet files": (
        ("check", "maintenance", "Count NULL and duplicate keys of a table."),
        ("dedup", "maintenance", "Leave one row of each key in a dataset."),
        ("compact", "maintenance", "Join the small files of a table."),
        ("vacuum", "maintenance", "Remove files that a table no longer needs."),
        ("recover", "maintenance", "Finish an interrupted commit of a dataset."),
    ),
    "This machine": (
        ("doctor", "setup", "Say what this machine has of what Spark needs."),
        ("setup", "setup", "Fetch Delta's jars and prepare a quick start."),
    ),
}


class Commands(click.Group):
    """A group whose every end is one of four: done, failed (1), wrongly called (2), interrupted (130)."""

    def __init__(self, *args: Any, sections: Sections | None = None, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.sections = sections or {}
        self._modules = {name: module for commands in self.sections.values() for name, module, _ in commands}
        self._helps = {name: said for commands in self.sections.values() for name, _, said in commands}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self._modules])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loads the module that has the command."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        found = vars(import_module(f"tidemill.cli.{self._modules[cmd_name]}")).values()
        command = next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)
        command.short_help = self._helps[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, self._helps), default=0)
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), said) for name, _, said in commands])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = sorted(name for name in self._helps if name.startswith(incomplete))
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=self._helps[name]) for name in names), *options]

    def main(  # type: ignore[override] # there is one way to end
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **_: Any
    ) -> NoReturn:
        given = list(sys.argv[1:] if args is None else args) or ["--help"]
        show_log(logging.WARNING)
        sys.exit(self._outcome(given, prog_name or "tidemill"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if not name.startswith("-") and name not in known:
            raise _unknown_command(name, known)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return _interrupted()

    def _outcome(self, args: list[str], prog_name: str) -> int:
        try:
            _stand_somewhere()
            code = super().main(args, prog_name, standalone_mode=False)
        except click.Abort:
            return _interrupted()
        except click.ClickException as failure:
            return _ended_by(_usage(failure), args)
        except TidemillError as failure:
            return _ended_by(failure, args)
        except Exception as failure:  # noqa: BLE001  the last place that can turn it into a sentence
            return _ended_by(_unexpected(failure, args), args)
        return code if isinstance(code, int) else 0


@click.group(cls=Commands, sections=SECTIONS, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tidemill", message="tidemill %(version)s")
def tidemill() -> None:
    """Incremental tables on Spark that are exact.

    Every run moves only what changed, in one commit, and the table still equals a full rebuild.
    """


def main() -> NoReturn:
    """Runs the command line; nobody sees a traceback who has not asked for one."""
    try:
        tidemill.main()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave_at_once()
        raise


def _leave_at_once() -> NoReturn:
    """Ends steps that are still at work, which Python would wait for; their tables hold whole commits."""
    cli.hush()
    engine = sys.modules.get("tidemill.spark.session")
    if engine is not None:
        engine.stop()
    os._exit(INTERRUPTED)


def _stand_somewhere() -> None:
    """Paths start at the current folder, which somebody may have removed."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError as failure:
        raise ArgumentError(
            "cli.folder_gone", "The current folder is not there any more.", "Go to one that is: cd …"
        ) from failure


def _ended_by(failure: TidemillError, args: Sequence[str]) -> int:
    render.error(failure, as_json=_wants_json(args))
    return failure.exit_code


def _interrupted() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Spark is being stopped; a second Ctrl-C would only be noise
    render.say("interrupted: nothing is half written, and the same command again takes it up", err=True)
    return INTERRUPTED


def _wants_json(args: Sequence[str]) -> bool:
    """Asked of the bare arguments: they may be what is wrong."""
    return "--format=json" in args or ("--format", "json") in itertools.pairwise(args)


def _wants_details(args: Sequence[str]) -> bool:
    return bool(os.environ.get("TIDEMILL_DEBUG")) or "--verbose" in args or "-v" in args


def _unknown_command(name: str, known: Sequence[str]) -> ArgumentError:
    close = difflib.get_close_matches(name, known, n=1)
    remedy = f"Did you mean {close[0]}? " if close else ""
    return ArgumentError(
        "cli.unknown_command",
        f"There is no command {name!r}.",
        f"{remedy}The commands are {', '.join(known)}.",
    )


def _usage(failure: click.ClickException) -> ArgumentError:
    context = failure.ctx if isinstance(failure, click.UsageError) else None
    path = context.command_path if context else "tidemill"
    problem = re.sub(r"a valid (integer|float)( range)?", _number, failure.format_message())
    return ArgumentError("cli.usage", problem, f"{path} --help shows how it is called.")


def _number(types: re.Match[str]) -> str:
    """Click tells types; people know numbers."""
    return "a whole number" if types[1] == "integer" else "a number"


def _unexpected(failure: Exception, args: Sequence[str]) -> TidemillError:
    if full := lack_of_room(str(failure)):
        return disk_full(f"tidemill {next(iter(args), '')}".rstrip(), full, Path.cwd())
    details = "".join(traceback.format_exception(failure))
    if _wants_details(args):
        cli.write(details, err=True)
    kept = _keep(details)
    where = f"The details are in {kept}." if kept else "Run it again with --verbose to see the details."
    return TidemillError(
        "internal",
        f"Something went wrong that Tidemill does not know: {_first_line(failure)}",
        f"{where} Tables hold whole commits only.",
    )


def _first_line(failure: Exception) -> str:
    text = next(iter(str(failure).splitlines()), "")
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _keep(details: str) -> Path | None:
    file = log_folder() / f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(details, encoding="utf-8")
    except OSError:
        return None
    return file


if __name__ == "__main__":
    main()
