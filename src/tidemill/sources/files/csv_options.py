"""What Spark's options say of CSV files, where it has to be known before Spark reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options that were given, or what holds without them. Options count without case."""

    separator: str
    encoding: str
    quote: str
    comment: str | None
    has_header: bool
    names_lines: bool  # whether they say how records lie in lines
    names_separator: bool
    is_usual: bool  # whether a quote inside of quotes is written twice, and every line counts

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        given = {name.lower(): value for name, value in options.items()}
        return cls(
            separator=given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t"),
            encoding=given.get("encoding", given.get("charset", "utf-8")).lower(),
            quote=given.get("quote", '"'),
            comment=given.get("comment"),
            has_header=given.get("header", "true").lower() == "true",
            names_lines="multiline" in given,
            names_separator=not given.keys().isdisjoint({"sep", "delimiter"}),
            is_usual=given.keys().isdisjoint({"escape", "comment"}),
        )


def with_tabs(options: Mapping[str, str]) -> dict[str, str]:
    """The options of files whose columns are separated by tabs, unless they say otherwise."""
    return ({} if CsvOptions.of(options).names_separator else {"sep": "\t"}) | dict(options)
