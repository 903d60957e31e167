"""fsspeckit on the same data in the same run, installed into an environment of its own: Tidemill does not need it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = "0.25.*"
HANDLERS = ("DuckDB", "PyArrow")
_SCRIPT = Path(__file__).with_name("fsspeckit_merge.py")


@dataclass
class Fsspeckit:
    """An environment in a folder, made by `install`."""

    folder: Path

    def install(self) -> str | None:
        """None, or why it cannot be had."""
        uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
        if uv is None:
            return "uv is not there to install it"
        wanted = f"fsspeckit[datasets]=={VERSION}"
        for command in (
            [uv, "venv", "--quiet", "--python", sys.executable, str(self.folder)],
            [uv, "pip", "install", "--quiet", "--python", str(self._python), wanted],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return (done.stderr.strip().splitlines() or ["it cannot be installed"])[-1]
        return None

    def merge(self, handler: str, expected: int, change: Path, target: Path) -> float:
        """The seconds of an upsert, in a process of its own; it has to say that it changed as many rows as expected."""
        given = [handler, str(change), str(target), "k", "part"]
        done = subprocess.run([str(self._python), str(_SCRIPT), *given], capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        assert (told["inserted"], told["updated"]) == (0, expected), told
        return float(told["seconds"])

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"
