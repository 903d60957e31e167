"""How commands end: exit codes, the texts of errors, Ctrl-C, closed pipes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import click
import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import tidemill
from tidemill.cli.main import Commands
from tidemill.cli.main import tidemill as commands
from tidemill.errors import ArgumentError, MergeError, Origin

NAMES = commands.list_commands(click.Context(commands))


def ending_with(failure: BaseException, *args: str) -> Result:
    """What a command shows whose work ends with this error."""

    @click.command()
    @click.option("--format", "form")
    @click.option("-v", "--verbose", is_flag=True)
    def fail(form: str, verbose: bool) -> None:  # noqa: ARG001
        raise failure

    return CliRunner().invoke(Commands("tidemill", {"fail": fail}), ["fail", *args])


def test_an_error_says_what_happened_where_and_what_to_do():
    origin = Origin("models/shop/orders.sql", 4)
    result = ending_with(MergeError("merge.null_keys", "4 rows have no id.", "Leave them out.", origin=origin))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "error[merge.null_keys] 4 rows have no id.\n  models/shop/orders.sql:4\n  Leave them out.\n"


def test_a_wrong_argument_ends_with_2():
    assert ending_with(ArgumentError("merge.no_keys", "No keys.", "Name them.")).exit_code == 2


def test_an_error_is_a_json_document_when_json_is_asked_for():
    failure = MergeError("merge.null_keys", "4 rows have no id.", "Leave them out.")
    result = ending_with(failure, "--format", "json")
    assert result.exit_code == 1
    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "error": {
            "code": "merge.null_keys",
            "problem": "4 rows have no id.",
            "remedy": "Leave them out.",
            "origin": None,
        }
    }


def test_an_unexpected_error_is_one_sentence_and_its_details_are_in_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TIDEMILL_HOME", str(folder / "home"))
    result = ending_with(KeyError("cheese"))
    (kept,) = (folder / "home" / "logs").glob("error-*.log")
    assert result.exit_code == 1
    assert result.stderr == (
        "error[internal] Something went wrong that Tidemill does not know: KeyError: 'cheese'\n"
        f"  The details are in {kept}. Tables hold whole commits only.\n"
    )
    assert "Traceback (most recent call last)" in kept.read_text()


def test_an_unexpected_error_that_cannot_be_kept_is_still_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "home").write_text("a file where a folder should be")
    monkeypatch.setenv("TIDEMILL_HOME", str(folder / "home"))
    result = ending_with(KeyError("cheese"))
    assert result.exit_code == 1
    assert "Run it again with --verbose to see the details." in result.stderr


@pytest.mark.parametrize(("flag", "variable"), [("--verbose", ""), ("-v", ""), ("", "1")])
def test_the_traceback_of_an_unexpected_error_is_shown_to_who_asks(
    flag: str, variable: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TIDEMILL_HOME", str(folder / "home"))
    monkeypatch.setenv("TIDEMILL_DEBUG", variable)
    result = ending_with(KeyError("cheese"), *([flag] if flag else []))
    assert "Traceback (most recent call last)" in result.stderr


def test_an_unknown_command_proposes_the_one_that_was_meant(cli):
    result = cli("mrege", "a", "b")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "error[cli.unknown_command] There is no command 'mrege'.\n  Did you mean merge? The commands are backup, "
    )


def test_a_current_folder_that_somebody_has_removed_is_reported(folder: Path, cli, monkeypatch: pytest.MonkeyPatch):
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    result = cli("plan")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[cli.folder_gone] The current folder is not there any more.\n  Go to one that is: cd …\n"
    )


def test_a_missing_option_says_which(cli):
    result = cli("merge", "a.csv", "b")
    assert result.exit_code == 2
    assert result.stderr == (
        "error[cli.usage] Missing option '--on'.\n  tidemill merge --help shows how it is called.\n"
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "orders", "--limit", "abc"), "Invalid value for '-n' / '--limit': 'abc' is not a whole number."),
        (("merge", "a", "b", "--max-shrink", "x"), "Invalid value for '--max-shrink': 'x' is not a number."),
    ],
)
def test_a_value_that_is_no_number_is_reported_in_plain_words(cli, args: tuple[str, ...], said: str):
    assert cli(*args).stderr.splitlines()[0] == f"error[cli.usage] {said}"


def test_a_wrong_flag_is_a_json_error_too(cli):
    result = cli("merge", "a.csv", "b", "--on", "id", "--strategy", "upsrt", "--format=json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "cli.usage"
    assert "'upsrt' is not one of 'upsert', 'insert', 'update', 'full_merge', 'deduplicate'" in error["problem"]


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help_shows_the_commands_and_examples(cli, args):
    result = cli(*args)
    assert result.exit_code == 0
    assert "tidemill merge new_orders.csv lake/orders --on order_id" in result.stdout
    assert "Show the commits of a table" in result.stdout


def test_the_help_has_each_command_once_in_one_line_under_what_it_is_about(cli):
    lines = cli("--help").stdout.splitlines()
    first, last = lines.index("Projects and pipeline files:"), lines.index("  Examples:")
    shown = [line.split()[0] for line in lines[first:last] if line.startswith("  ")]
    assert sorted(shown) == NAMES
    assert shown[:2] == ["init", "run"]
    assert max(map(len, lines)) <= 80


def test_the_help_says_how_a_shell_completes_commands(cli, shell):
    assert 'eval "$(_TIDEMILL_COMPLETE=bash_source tidemill)"' in cli("--help").stdout
    asked = {"_TIDEMILL_COMPLETE": "bash_complete", "COMP_WORDS": "tidemill hist", "COMP_CWORD": "1"}
    assert shell(**asked).stdout == "plain,history\n"


def test_the_command_is_there_as_a_module_too():
    done = subprocess.run([sys.executable, "-m", "tidemill", "statsu"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[cli.unknown_command] There is no command 'statsu'.\n  Did you mean status?")


def _command(name: str) -> click.Command:
    found = commands.get_command(click.Context(commands), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_command_can_be_asked_for_json_for_quiet_and_for_details(name: str):
    flags = {flag for each in _command(name).params for flag in each.opts}
    assert {"--format", "-q", "--quiet", "-v", "--verbose"} <= flags


def test_the_version_is_the_package_version(cli):
    assert cli("--version").stdout == f"tidemill {tidemill.__version__}\n"


def test_help_and_history_import_neither_spark_nor_pandas():
    code = (
        "import sys\n"
        "from tidemill.cli.main import tidemill\n"
        "try: tidemill.main(['history', 'nowhere'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('pyspark', 'pandas', 'rich') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("asked", [["--help"], ["statsu"], ["run", "--help"]])
def test_no_command_is_loaded_but_the_one_that_is_asked_for(asked: list[str]):
    """Nor what it may need: Arrow, and the front ends for a wrong name."""
    code = (
        "import sys\n"
        "from tidemill.cli.main import tidemill\n"
        f"try: tidemill.main({asked})\n"
        "except SystemExit: pass\n"
        "heavy = ('pyspark', 'pyarrow', 'deltalake', 'numpy', 'rich', 'httpx', 'tidemill.cli.merge')\n"
        "light = () if 'run' in sys.argv else ('sqlglot', 'sqlite3', 'tidemill.api', 'tidemill.cli.run')\n"
        "print([n for n in (*heavy, *light) if n in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_modules_of_commands_load_neither_spark_nor_arrow():
    """They do when the command comes to work that needs it."""
    code = (
        "import sys, tidemill.cli, tidemill.api\n"
        "from importlib import import_module\n"
        "from pkgutil import iter_modules\n"
        "needs = {f'tidemill.api.{name}' for name in ('engine', 'merge_step', 'merging', 'tables')}\n"
        "needs.add('tidemill.cli.progress')\n"
        "for room in (tidemill.cli, tidemill.api):\n"
        "    for each in iter_modules(room.__path__, f'{room.__name__}.'):\n"
        "        each.name in needs or import_module(each.name)\n"
        "print([n for n in ('pyspark', 'pandas', 'pyarrow', 'deltalake', 'rich', 'httpx') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_completion_loads_no_command(shell):
    asked = {"_TIDEMILL_COMPLETE": "bash_complete", "COMP_WORDS": "tidemill s", "COMP_CWORD": "1"}
    done = shell(PYTHONPROFILEIMPORTTIME="1", **asked)
    assert done.stdout.split() == ["plain,set-watermark", "plain,setup", "plain,show", "plain,show-watermarks",
                                   "plain,state", "plain,status", "plain,suggest"]  # fmt: skip
    assert "tidemill.cli.status" not in done.stderr


@pytest.mark.parametrize("command", ["validate", "list"])
def test_what_only_reads_declarations_imports_no_arrow_either(folder: Path, command: str):
    (folder / "p.sql").write_text("CREATE TABLE a AS SELECT 1 AS id;")
    code = (
        "import sys\n"
        "from tidemill.cli.main import tidemill\n"
        f"try: tidemill.main(['{command}', 'p.sql', '--quiet'])\n"
        "except SystemExit as end: print(end.code)\n"
        "print([n for n in ('pyarrow', 'deltalake', 'numpy') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n[]\n"


def test_a_closed_pipe_is_no_error(folder: Path):
    deltalake_table(folder / "lake")
    command = f"{sys.executable} -m tidemill.cli.main history lake --format json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
    assert done.stderr == ""


def deltalake_table(path: Path) -> None:
    for number in range(30):
        deltalake.write_deltalake(path, pa.table({"id": [number]}), mode="append")


@pytest.mark.parametrize("seconds_after_start", [0.2, 3.5])
def test_ctrl_c_ends_at_once_with_one_line_and_leaves_no_java_behind(
    folder: Path, write_csv, seconds_after_start: float
):
    write_csv(folder / "orders.csv", "1,eu,10.5")
    command = [sys.executable, "-m", "tidemill.cli.main", "merge", "orders.csv", "lake/orders", "--on", "order_id"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (children := _children(process.pid)) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(seconds_after_start)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert stderr == "interrupted: nothing is half written, and the same command again takes it up\n"
    assert _gone(children), "Java has ended"
    with closing(sqlite3.connect(folder / "state" / "tidemill" / "ledger.db")) as ledger:
        assert ledger.execute("SELECT status, error_code FROM steps").fetchall() == [("interrupted", "interrupted")]


def test_ctrl_c_ends_all_steps_of_a_run_those_too_that_wait_for_their_turn(folder: Path):
    slow = [f"CREATE TABLE t{n} AS SELECT max(hash(id + {n})) AS h FROM range({1 << 50});" for n in range(3)]
    (folder / "p.sql").write_text("\n".join(slow))
    command = [sys.executable, "-m", "tidemill.cli.main", "run", "p.sql", "--threads", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (children := _children(process.pid)) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    try:
        stdout, stderr = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (130, "  Tidemill 0.1 · p · embedded Spark · 3 steps   first run\n")
    assert stderr == "interrupted: nothing is half written, and the same command again takes it up\n"
    assert _gone(children), "Java has ended"


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def _gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 15
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_it_does_in_a_line_and_shows_how_it_is_called(cli, name: str):
    command = _command(name)
    assert command.short_help is not None
    assert len(command.short_help) < 70
    help_ = cli(name, "--help")
    assert help_.exit_code == 0
    assert f"\n    tidemill {name}" in help_.output.partition("Examples:")[2]
