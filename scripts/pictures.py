"""Draws the pictures of README.md from real runs: the demo as a terminal, and the graph of the starter project.

.venv/bin/python scripts/pictures.py
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WIDTH = 108


def main() -> None:
    draw_demo(_ran(ROOT, sys.executable, "examples/demo.py"))
    with tempfile.TemporaryDirectory() as folder:
        _tidemill(folder, "init", "shop")
        shop = f"{folder}/shop"
        _tidemill(shop, "run")
        _tidemill(shop, "graph", "--svg", str(DOCS / "shop.svg"))


def draw_demo(output: str) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    text = Text(f"$ make demo\n{output.rstrip()}")
    text.highlight_regex(r"✓[^\n]*|equals[^\n]*", "green")
    text.highlight_regex(r"^\$ .*", "bold")
    console.print(text, soft_wrap=False)
    drawn = console.export_svg(title="make demo", unique_id="demo")
    # Fonts from elsewhere would be fetched by whoever looks at it; what is installed will do.
    (DOCS / "demo.svg").write_text(re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL), encoding="utf-8")


def _tidemill(folder: str, *words: str) -> str:
    return _ran(Path(folder), sys.executable, "-m", "tidemill.cli.main", *words)


def _ran(folder: Path, *command: str) -> str:
    env = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
