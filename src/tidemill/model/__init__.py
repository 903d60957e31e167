"""Names, paths and formats as users write them, and how Spark SQL quotes names and texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEFAULT_SCHEMA = "main"


_SCHEMA_AND_TABLE, _WITH_CATALOG = 2, 3
_PARTS = re.compile(r"`(?:[^`]|``)*`|[^.`]+")


@dataclass(frozen=True, slots=True)
class Naming:
    """How tables are named: `schema` is that of names without one, and `catalog` may stand before a schema of ours."""

    schema: str = DEFAULT_SCHEMA
    catalog: str | None = None

    def full(self, written: str) -> str:
        """A name as users write it, as `schema.table`; one of another catalog stays as it is."""
        parts = _PARTS.findall(written)
        if len(parts) == _WITH_CATALOG and self.is_own_catalog(parts[0]):
            return ".".join(parts[1:])
        return written if len(parts) >= _SCHEMA_AND_TABLE else f"{self.schema}.{written}"

    def key(self, written: str) -> str:
        """What all spellings of one table's name have in common; a name of another catalog stays as it is."""
        full = self.full(written)
        return full if is_foreign(full) else full.lower()

    def is_own_catalog(self, written: str) -> bool:
        return self.catalog is not None and written.strip("`").lower() == self.catalog.lower()


def rejected_name(table: str) -> str:
    """The table that holds the rows which another one turned away; of a path, its path."""
    return f"{table}__rejected"


def is_foreign(full: str) -> bool:
    """Whether a name that `Naming.full` gave is one of another catalog, which Spark has to know."""
    return len(_PARTS.findall(full)) > _SCHEMA_AND_TABLE


def naming_remedy(full: str) -> str:
    """How to name a table of the project, where a name that `Naming.full` gave is none."""
    if not is_foreign(full):
        return "name it table or schema.table, in letters, digits and _"
    catalog = _PARTS.findall(full)[0]
    return f'name it table or schema.table, or say [warehouse] catalog = "{catalog}" in tidemill.toml'


RESET_ALLOWED = "pipelines.reset.allowed"  # the table property by which others say `reset_allowed`
KEPT_FROM_RESET = "tidemill.reset_allowed"  # the table property by which a table that is declared so remembers it


def quote(name: str) -> str:
    """A column name as one SQL identifier, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def quoted_name(name: str) -> str:
    """The name of a table as Spark SQL reads it; one that is quoted already stays as it is."""
    return name if "`" in name else ".".join(map(quote, name.split(".")))


def of(alias: str, name: str) -> str:
    return f"{alias}.{quote(name)}"


def field_names(kind: Any) -> Iterator[str]:
    """All names in a schema as JSON has it, also those of fields inside columns."""
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield field["name"]
            yield from field_names(field["type"])
        for part in ("elementType", "keyType", "valueType"):
            yield from field_names(kind.get(part))


def spelled(name: str, columns: Iterable[str]) -> str | None:
    """The spelling that `columns` have for this name, or None."""
    wanted = name.lower()
    return next((column for column in columns if column.lower() == wanted), None)


def quoted_text(value: str) -> str:
    """A Spark SQL string literal; whatever the text holds, it stays a value."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    escaped = escaped.replace("${", "\\u0024{")  # Spark's parser would put a setting or ${env:NAME} in its place
    return f"'{escaped}'"


def absolute(path: str | Path, folder: Path | None = None) -> str:
    """The path as it is from anywhere, from `folder` or the current one on; URLs stay as they are.

    Spark writes the address of a local file with one slash: `file:/lake/orders`.
    """
    if str(path).startswith("file:/") and "://" not in str(path):
        return f"file://{str(path).removeprefix('file:')}"
    return str(path) if "://" in str(path) else str((folder or Path.cwd()).absolute() / at_home(path))


def local_path(address: str, *, escaped: bool = False) -> Path | None:
    """The path on this machine that an address names: a path, `file:/x`, `file:///x` or `file://localhost/x`.

    None for the address of another place. `escaped`: signs are written as in URLs, `%20` for a space, which Spark does
    where it names files, and not where it takes paths.
    """
    if not address.startswith("file:"):
        return None if "://" in address else Path(address)
    path = "/" + address.removeprefix("file:").removeprefix("//").removeprefix("localhost").lstrip("/")
    return Path(unquote(path) if escaped else path)


def at_home(path: str | Path) -> Path:
    """The path with `~` as the folder that it stands for; where nobody is called so, `~name` is a name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


OF_WAREHOUSE = ""  # the format of a declaration which says nothing of it, until its project is known
