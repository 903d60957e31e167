"""What is being done now, shown on a terminal below all other lines. Importing this imports Rich."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text


class Display(Progress):
    """Lines with a spinner and a clock, on stderr. What users' functions print goes above them too."""

    def __init__(self) -> None:
        parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        # Lines for stdout go above the live ones if they share a terminal; into a pipe they must go as they are.
        super().__init__(*parts, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())

    def write(self, text: str) -> None:
        """A line above those of what is being done."""
        # click.echo would write past Rich: it takes its stand-in for stdout, which has no encoding, for one of bytes.
        self.console.print(Text.from_ansi(text), soft_wrap=True)
