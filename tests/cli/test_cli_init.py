"""`tidemill init`: what it writes, and when it writes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tidemill.cli import setup

ROOT = Path(__file__).parents[2]
FILES = [
    ".gitignore",
    "README.md",
    "data/customers.csv",
    "data/orders/day1.csv",
    "day2/orders.csv",
    "pipelines/shop.sql",
    "tidemill.toml",
]


def written(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_it_ends_with_the_next_commands_to_type(folder: Path, cli):
    result = cli("init", "shop")
    assert result.exit_code == 0
    assert result.output == (
        "  ✓ shop created: 7 files. Next:\n"
        "    cd shop\n"
        "    tidemill run\n"
        "    cp day2/*.csv data/orders/ && tidemill run\n"
    )
    assert written(folder / "shop") == FILES
    assert (folder / "shop" / "tidemill.toml").read_text().startswith('name = "shop"\n')
    assert (folder / "shop" / ".gitignore").read_text() == "warehouse/\n.tidemill/\n.env\n"


def test_what_it_makes_is_valid_and_proposes_nothing(folder: Path, cli, monkeypatch: pytest.MonkeyPatch):
    cli("init", "my-shop_2", "--quiet")
    monkeypatch.chdir(folder / "my-shop_2")
    result = cli("validate", "--format", "json")
    counts = {"tables": 3, "views": 0, "exports": 1}
    assert json.loads(result.stdout) == {"ok": True, **counts, "notices": [], "proposals": []}


def test_the_same_as_json(folder: Path, cli):
    found = json.loads(cli("init", "shop", "--format", "json").stdout)
    assert sorted(found.pop("files")) == FILES
    assert found == {
        "project": "shop",
        "path": str(folder / "shop"),
        "next": ["cd shop", "tidemill run", "cp day2/*.csv data/orders/ && tidemill run"],
    }


def test_an_empty_folder_is_taken_and_one_that_is_not_is_refused(folder: Path, cli):
    (folder / "shop").mkdir()
    assert cli("init", "shop").exit_code == 0
    before = (folder / "shop" / "tidemill.toml").stat().st_mtime_ns
    result = cli("init", "shop")
    assert (result.exit_code, result.stderr) == (
        2,
        "error[init.exists] shop is a folder that is not empty.\n  Choose another name. Nothing was written.\n",
    )
    assert (folder / "shop" / "tidemill.toml").stat().st_mtime_ns == before


def test_a_file_of_that_name_is_refused(folder: Path, cli):
    (folder / "shop").write_text("mine")
    result = cli("init", "shop", "--format", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["problem"] == "shop is a file."
    assert (folder / "shop").read_text() == "mine"


@pytest.mark.parametrize("name", ["../shop", "a b", "1shop", ".", "", "shöp"])
def test_a_bad_name_is_an_error(folder: Path, cli, name: str):
    result = cli("init", name)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error[init.bad_name] {name!r} is no name for a project.\n  Name it in letters")
    assert list(folder.iterdir()) == []


def test_the_second_day_holds_what_incremental_runs_have_to_stand():
    first, second = setup.first_month(), setup.next_day()
    watermark = max(row[5] for row in first)
    known = {row[0] for row in first}
    assert (len(first), len(known), len(setup.customers())) == (1000, 1000, 120)
    new = [row for row in second if row[0] not in known]
    assert len({row[0] for row in second}) == len(second) == 50
    assert len(new) == 41
    assert sum(row[5] == watermark for row in new) == 2
    assert sum(row[5] < watermark for row in new) == 3


def test_the_wheel_holds_the_files_that_it_needs(tmp_path: Path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if "/starter/" in name}
    starter = ROOT / "src" / "tidemill" / "cli" / "starter"
    assert names == {f"tidemill/cli/starter/{name}" for name in written(starter)}
