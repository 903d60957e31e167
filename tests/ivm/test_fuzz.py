"""A sample of the fuzzer's cases; `python tests/ivm/fuzz.py --cases N` runs as many as one likes."""

from __future__ import annotations

from collections import Counter

import pytest
from fuzz import run_case

_CASES = 320
_PARTS = 8


@pytest.mark.parametrize("part", range(_PARTS))
def test_rules_and_full_queries_agree(part: int) -> None:
    rules: Counter[str] = Counter()
    for seed in range(part, _CASES, _PARTS):
        found = run_case(seed)
        assert found.outcome != "different", f"seed {seed}\n{found.text}\n{found.detail}"
        rules += found.rules
    assert {"linear", "local", "grouped", "summed"} <= set(rules)


def test_a_case_is_the_same_each_time() -> None:
    assert run_case(7) == run_case(7)
