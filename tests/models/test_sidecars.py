"""A sidecar is plain Python that is run alone: it leaves nothing behind, and every key in it has a place."""

from __future__ import annotations

import json
import sys
import time

import pytest

from tidemill.api.workspace import Workspace


def test_a_sidecar_leaves_neither_modules_nor_bytecode_nor_output(load, folder, query, capfd, monkeypatch):
    monkeypatch.syspath_prepend(str(folder / "models/my_schema"))
    sidecar = "import sys\nimport shared_keys\nprint(sys.argv, __name__)\nmetadata = {'tags': shared_keys.TAGS}\n"
    files = {"orders.sql": query, "orders.py": sidecar, "shared_keys.py": "TAGS = ['a']\n"}
    modules = set(sys.modules)
    bytecode = sys.dont_write_bytecode
    (table,) = load(files).tables
    assert table.tags == ("a",)
    assert not {name for name in set(sys.modules) - modules if "sidecar" in name or name == "shared_keys"}
    assert (sys.dont_write_bytecode, list(folder.rglob("*.pyc"))) == (bytecode, [])
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "tidemill sidecar models/my_schema/orders.py" in printed.err
    (changed,) = load({**files, "shared_keys.py": "TAGS = ['b', 'c']\n"}).tables
    assert changed.tags == ("b", "c")


def test_sidecars_do_not_see_each_other(load, query):
    tables = load(
        {
            "a.sql": query,
            "a.py": "common = ['a']\nmetadata = {'tags': common}\n",
            "b.sql": query,
            "b.py": "metadata = {'tags': 'b'} if 'common' not in globals() else {}\n",
        }
    ).tables
    assert [table.tags for table in tables] == [("a",), ("b",)]


PLACES = {
    "by another name": "base = {\n 'tags': 5}\nmetadata = base\n",
    "the last of several": "metadata = {'tags': 'x'}\nmetadata = {\n\n 'tags': 5}\n",
    "spread into it": "base = {\n 'tags': 5}\nmetadata = {**base, 'description': 'x'}\n",
    "joined to it": "base = {\n 'tags': 5}\nmetadata = {'description': 'x'} | base\n",
    "by keyword": "metadata = dict(description='x',\n    tags=5)\n",
    "by keyword and spread": "base = {\n 'tags': 5}\nmetadata = dict(**base)\n",
    "with an annotation": "metadata: dict = {\n 'tags': 5}\n",
    "after letters of several bytes": "metadata = {'description': '…é',\n 'tags': 5}\n",
    "with lines of Windows": "metadata = {\r\n 'tags': 5}\r\n",
}


@pytest.mark.parametrize("sidecar", PLACES.values(), ids=PLACES)
def test_a_key_is_found_however_the_dict_is_made(errors, query, sidecar):
    (found,) = errors({"orders.sql": query, "orders.py": sidecar})
    lines = sidecar.splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "tags" in text and "5" in text)
    column = lines[line - 1].index("tags") + (1 if "tags=" in lines[line - 1] else 0)
    assert f"models/my_schema/orders.py:{line}:{column}\n" in found


@pytest.mark.parametrize(
    "sidecar",
    [
        "def made():\n    return {'tags': 5}\n\nmetadata = made()\n",
        "x = {'tags': 'a'}\n\n\nmetadata = x.copy()\nmetadata['tags'] = 5\n",
        "x = x2 = {}\n\n\nmetadata = [{'tags': 5}][0]\n",
    ],
)
def test_a_key_that_is_made_by_code_is_reported_at_metadata(errors, query, sidecar):
    (found,) = errors({"orders.sql": query, "orders.py": sidecar})
    assert "models/my_schema/orders.py:4:1\n" in found


def test_metadata_that_no_line_of_the_file_names_is_reported_at_its_beginning(errors, query):
    (found,) = errors({"orders.sql": query, "orders.py": "\nfor metadata in [{'tags': 5}]:\n    pass\n"})
    assert "models/my_schema/orders.py:1:1\n" in found


def test_a_hundred_models_are_read_in_a_moment(folder, query):
    models = folder / "models/my_schema"
    models.mkdir(parents=True)
    metadata = {
        "materialization": "incremental",
        "incremental": {"strategy": "merge", "merge": {"unique_key": "id", "time_column": "updated_at"}},
    }
    for number in range(100):
        (models / f"m{number}.sql").write_text(query)
        (models / f"m{number}.py").write_text(f"metadata = {json.dumps(metadata)}\n")
    began = time.process_time()
    assert len(Workspace.load(".").tables) == 100
    assert time.process_time() - began < 1
