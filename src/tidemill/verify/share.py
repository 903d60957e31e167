"""The share of a view that a sample has, as people write it."""

from __future__ import annotations

from tidemill.errors import ArgumentError

PARTS = 1_000_000  # of which a share has some


def share_of(text: str) -> float:
    """The share that a text such as `1%` or `0.01` says."""
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError as failure:
        raise _bad_share(text) from failure
    if rest:
        raise _bad_share(text)
    return check_share(share)


def check_share(share: float) -> float:
    if not 1 / PARTS <= share < 1:
        raise _bad_share(share_text(share))
    return share


def share_text(share: float) -> str:
    return f"{share * 100:g}%"


def _bad_share(given: str) -> ArgumentError:
    return ArgumentError(
        "verify.bad_sample",
        f"A sample is a share above 0% and below 100%, not {given}.",
        "Write 1% or 0.01; without a sample all rows are compared.",
    )
