"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path

from tidemill.model import absolute, local_path


def test_home_and_the_current_folder_are_known_and_what_only_looks_like_a_home_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert absolute("~/lake") == "/home/me/lake"
    assert absolute("~nobody-is-called-so") == f"{tmp_path}/~nobody-is-called-so"
    assert absolute(Path("./~x.csv")) == f"{tmp_path}/~x.csv"
    assert absolute("lake/orders", Path("/shop")) == "/shop/lake/orders"
    assert absolute("s3://lake/~x") == "s3://lake/~x"
    assert absolute("file:/lake/orders") == absolute("file:///lake/orders") == "file:///lake/orders"


def test_the_address_of_a_local_file_is_its_path_however_it_is_written():
    for address in ("/lake/a b", "file:/lake/a b", "file:///lake/a b", "file://localhost/lake/a b"):
        assert local_path(address) == Path("/lake/a b")
    assert local_path("file:/lake/a%20b", escaped=True) == Path("/lake/a b")
    assert local_path("file:/lake/a%20b") == local_path("/lake/a%20b", escaped=True) == Path("/lake/a%20b")
    assert local_path("lake/orders") == Path("lake/orders")
    assert local_path("s3://lake/orders") is None
