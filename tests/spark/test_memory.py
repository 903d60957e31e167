from __future__ import annotations

import pytest

from tidemill.errors import ArgumentError
from tidemill.spark.jvm import driver_memory, machine_mib


def test_spark_takes_a_quarter_of_the_machine_between_1_and_4_gib(monkeypatch):
    monkeypatch.delenv("TIDEMILL_DRIVER_MEMORY", raising=False)
    assert driver_memory() == f"{min(4096, max(1024, machine_mib() // 4))}m"


@pytest.mark.parametrize(("given", "heap"), [("2g", "2g"), ("512MB", "512m"), (" 3G ", "3g")])
def test_the_environment_may_say_how_much(given: str, heap: str, monkeypatch):
    monkeypatch.setenv("TIDEMILL_DRIVER_MEMORY", given)
    assert driver_memory() == heap
    assert driver_memory("7g") == "7g"


def test_what_is_no_amount_is_an_error(monkeypatch):
    monkeypatch.setenv("TIDEMILL_DRIVER_MEMORY", "plenty")
    with pytest.raises(ArgumentError) as error:
        driver_memory()
    assert str(error.value) == (
        "[engine.driver_memory] 'plenty' is not an amount of memory. "
        "Give TIDEMILL_DRIVER_MEMORY (or spark.driver.memory) as a number with m or g, such as 2g."
    )
