"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path

from tidemill.model.names import absolute


def test_home_and_the_current_folder_are_known_and_what_only_looks_like_a_home_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert absolute("~/lake") == "/home/me/lake"
    assert absolute("~nobody-is-called-so") == f"{tmp_path}/~nobody-is-called-so"
    assert absolute(Path("./~x.csv")) == f"{tmp_path}/~x.csv"
    assert absolute("lake/orders", Path("/shop")) == "/shop/lake/orders"
    assert absolute("s3://lake/~x") == "s3://lake/~x"
    assert absolute("file:/lake/orders") == absolute("file:///lake/orders") == "file:///lake/orders"
