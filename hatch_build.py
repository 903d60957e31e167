"""What pyproject.toml cannot hold of the wheel's metadata: a README whose links work outside of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# [text](docs/page.md#part) and ![text](docs/picture.svg), with a path of the repository
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


class Metadata(MetadataHookInterface):
    """The address of the repository is one setting, `repository`; while it is empty, there is nothing to link to."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository, version = self.config["repository"].rstrip("/"), metadata["version"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_links(text, repository, version)}
        metadata["urls"] = urls(repository, version)


def with_links(text: str, repository: str, version: str) -> str:
    """Links of the README with their whole addresses; without a repository their words alone, and no pictures."""

    def whole(link: re.Match[str]) -> str:
        mark, words, path = link.groups()
        if not repository:
            return "" if mark else words
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/v{version}/{path})"

    return _LINK.sub(whole, text)


def urls(repository: str, version: str) -> dict[str, str]:
    if not repository:
        return {}
    pages = {"Documentation": "docs", "Changelog": "CHANGELOG.md"}
    named = {name: f"{repository}/blob/v{version}/{page}" for name, page in pages.items()}
    return {"Repository": repository, "Issues": f"{repository}/issues", **named}
