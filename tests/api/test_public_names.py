"""What the tab key, help() and a notebook show of the public names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import pickle
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import tidemill
from tidemill import RunResult, RunStep
from tidemill.errors import ArgumentError, MergeError, Origin


def test_the_tab_key_offers_the_public_names_and_no_modules_behind_them():
    assert dir(tidemill) == sorted([*tidemill.__all__, "errors"])


def test_type_checkers_see_the_public_names_that_are_loaded_when_they_are_asked_for():
    tree = ast.parse(Path(tidemill.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: each.module for each in imports for alias in each.names if each.module.startswith("tidemill.")}
    assert sorted(seen) == sorted(set(tidemill.__all__) - {"__version__"})
    for name, module in seen.items():
        assert getattr(tidemill, name) is getattr(import_module(module), name)


def test_no_public_name_is_that_of_a_module_which_would_take_its_place():
    assert [name for name in tidemill.__all__ if find_spec(f"tidemill.{name}")] == []


def test_a_name_that_is_not_public_is_an_error_that_says_so():
    with pytest.raises(AttributeError, match="module 'tidemill' has no attribute 'mrege'"):
        tidemill.mrege  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'mrege' from 'tidemill'"):
        from tidemill import mrege  # noqa: F401, PLC0415


def test_importing_tidemill_loads_its_errors_and_nothing_else_of_it():
    code = "import sys, tidemill; print(*sorted(each for each in sys.modules if each.startswith('tidemill')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tidemill tidemill.errors\n"


@pytest.mark.parametrize("name", sorted(set(tidemill.__all__) - {"__version__"}))
def test_help_says_of_every_public_name_what_a_caller_can_rely_on(name: str):
    assert len(inspect.getdoc(getattr(tidemill, name)) or "") > 20


def test_help_explains_every_argument_of_a_merge():
    said = inspect.getdoc(tidemill.merge) or ""
    assert [name for name in inspect.signature(tidemill.merge).parameters if f"`{name}`" not in said] == []


def test_a_merge_shows_its_notices_and_is_data_for_json():
    result = tidemill.MergeResult(1, 0, 0, 0, 0, 1_000_000, 1, 0, 0.52, 3, notices=("2 rows were skipped",))
    assert repr(result) == (
        "MergeResult(inserted=1, updated=0, deleted=0, unchanged=0, total=1_000_000, files_rewritten=1, files_kept=0, "
        "seconds=0.5, notices=('2 rows were skipped',))"
    )
    assert json.loads(json.dumps(dataclasses.asdict(result)))["total"] == 1_000_000


def test_a_run_is_one_line_in_a_notebook_and_a_step_shows_what_there_is_to_tell():
    done = RunStep("main.a", "changed", "append", rows_read=3, rows_written=1, inserted=1, unchanged=2, seconds=0.4)
    outcome = RunResult((done, RunStep("main.b", "not run", waits_for="main.c")), 1.26)
    assert repr(outcome) == "RunResult(ok=False, seconds=1.3, steps={'main.a': 'changed', 'main.b': 'not run'})"
    assert repr(done) == (
        "RunStep(table='main.a', status='changed', strategy='append', rows_read=3, rows_written=1, inserted=1, "
        "unchanged=2, seconds=0.4)"
    )


def test_the_mistakes_of_a_file_survive_it_too(tmp_path: Path):
    (tmp_path / "p.sql").write_text("LAOD a FROM b;\nLOAD c FROM d;")
    with pytest.raises(tidemill.TidemillError) as failure:
        tidemill.Project.load(tmp_path / "p.sql").plan()
    again = pickle.loads(pickle.dumps(failure.value))
    assert str(again) == str(failure.value)
    assert [each.code for each in again.errors] == ["language.unknown_statement", "language.unknown_source"]


@pytest.mark.parametrize("kind", [ArgumentError, MergeError])
def test_an_error_survives_the_way_to_another_process(kind: type[tidemill.TidemillError]):
    error = kind("merge.null_keys", "4 rows have no id.", "Leave them out.", origin=Origin("a.sql", 4))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code, again.origin) == (kind, str(error), error.code, error.origin)
