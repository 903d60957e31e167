"""The fuzzer finds bugs planted in the rules: a sample here, all with `make mutants`."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, survives

_QUICK = ["= for <=>", "old and new exchanged", "right join keeps the left key", "any distinct"]


@pytest.mark.parametrize("name", _QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    assert not survives(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MUTANTS) - set(_QUICK)))
def test_every_planted_bug_is_found(name: str) -> None:
    assert not survives(name)
