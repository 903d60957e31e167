"""The text of a file and places in it."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.errors import Origin


def offset_of(word: str, line: str, column: int) -> int:
    """Where a word that a parser met at this column, from 0, stands in the line as its author wrote it.

    Values in the place of variables may have moved it: then it is looked for.
    """
    return column if line[column : column + len(word)] == word else max(line.find(word), 0)


@dataclass(frozen=True, slots=True)
class Text:
    """A file as it was read, character by character; `file` is the name that users see."""

    file: str
    content: str

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, max(end, start + 1))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text, for errors to point at. Lines and columns count from 1, in characters."""

    text: Text
    start: int
    end: int

    @property
    def origin(self) -> Origin:
        number = self.text.content.count("\n", 0, self.start) + 1
        return Origin(self.text.file, number, self.start - self._line_start + 1)

    @property
    def line(self) -> str:
        """The whole line on which it starts."""
        return self.text.content[self._line_start : self._line_end].removesuffix("\r")

    @property
    def width(self) -> int:
        """How many characters of that line it covers, at least one."""
        return max(1, min(self.end, self._line_end) - self.start)

    @property
    def _line_start(self) -> int:
        return self.text.content.rfind("\n", 0, self.start) + 1

    @property
    def _line_end(self) -> int:
        found = self.text.content.find("\n", self.start)
        return len(self.text.content) if found < 0 else found
