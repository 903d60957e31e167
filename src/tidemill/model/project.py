"""Where a project is, which Spark does its work, and its variables: where their values come from, and which of them
must not be shown.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from tidemill.errors import ArgumentError
from tidemill.model import quoted_text
from tidemill.model.cursor import SESSION_ZONE, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from tidemill.errors import Origin

# ${name}, ${name|default}, ${env:NAME} or ${env:NAME|default}
VARIABLE = re.compile(r"\$\{\s*(?P<env>env:)?\s*(?P<name>[^\W\d][\w.-]*)\s*(?:\|(?P<default>[^{}\n]*))?\}")
NOTHING_GIVEN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Value:
    """The text of a variable; `secret` when it comes from `.env` or the environment."""

    text: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Variables:
    """All places but SET, which a pipeline's own text gives.

    The order is: `given` (--var, --vars), `project` (profile over [vars]), SET, `dotenv`, `environment`.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    project: Mapping[str, str] = field(default_factory=dict)
    dotenv: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    @property
    def known(self) -> dict[str, str]:
        """All by their names, but for the environment, which functions can ask themselves."""
        return {**self.dotenv, **self.project, **self.given}

    def find(self, name: str, assigned: Mapping[str, str] | None = None) -> Value | None:
        """The value of `${name}`; `assigned` holds what SET has given so far."""
        for place in (self.given, self.project, assigned or {}):
            if name in place:
                return Value(place[name])
        return self.find_secret(name)

    def find_secret(self, name: str) -> Value | None:
        """The value of `${env:name}`."""
        for place in (self.dotenv, self.environment):
            if name in place:
                return Value(place[name], secret=True)
        return None


def as_text(value: object) -> str:
    """A value of JSON or TOML as a variable holds it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def given_variables(document: str | None = None, pairs: Iterable[str] = ()) -> dict[str, str]:
    """What --vars (a JSON object) and --var (name=value, which wins) give."""
    return {name: as_text(value) for name, value in _object(document or "{}").items()} | given_pairs("--var", pairs)


def given_pairs(flag: str, pairs: Iterable[str]) -> dict[str, str]:
    """What a flag gives that takes name=value, as often as one likes."""
    given = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ArgumentError("variables.bad_pair", f"{flag} {pair} gives no value.", f"Write {flag} name=value.")
        given[name.strip()] = value
    return given


def _object(document: str) -> dict[str, object]:
    try:
        found = json.loads(document)
    except json.JSONDecodeError as bad:
        raise ArgumentError(
            "variables.bad_json", f"--vars is not JSON: {bad.msg} at character {bad.pos + 1}.", _EXAMPLE
        ) from bad
    if not isinstance(found, dict) or any(value is None or isinstance(value, dict | list) for value in found.values()):
        raise ArgumentError("variables.bad_json", "--vars must be a JSON object of texts and numbers.", _EXAMPLE)
    return found


_EXAMPLE = """Write --vars '{"start_date": "2024-02-01"}'."""

MASK = "***"
_SHORT = 4  # shorter values are masked where they stand alone: "a" must not take every a out of a sentence

_SECRET_NAMES = re.compile(
    r"(?i)pass|pwd|secret|token|credential|authorization|cookie|api.?key|access.?key|private.?key"
)
_IN_URL = re.compile(r"(?i)[?&;](\w*(?:pass|pwd|secret|token)\w*)=([^&;]*)")

Data = TypeVar("Data")


@dataclass(frozen=True)
class Masking:
    """Replaces every secret by ***, also in the spellings that JSON, SQL and URLs give it."""

    secrets: frozenset[str] = frozenset()
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pattern", _pattern(self.secrets))

    def __repr__(self) -> str:
        return f"Masking({len(self.secrets)} secrets)"

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def mask_data(self, data: Data) -> Data:
        """The same for what JSON can hold: texts and keys inside lists and dicts, and numbers that are a secret."""
        masked: object = data
        if isinstance(data, str):
            masked = self.mask(data)
        elif isinstance(data, dict):
            masked = {self.mask_data(key): self.mask_data(value) for key, value in data.items()}
        elif isinstance(data, list | tuple):
            masked = type(data)(self.mask_data(value) for value in data)
        elif isinstance(data, int | float) and not isinstance(data, bool) and str(data) in self.secrets:
            masked = MASK
        return cast("Data", masked)


def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    spellings = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
    longest_first = sorted(spellings, key=lambda each: (-len(each), each))
    return re.compile("|".join(_alternative(each) for each in longest_first)) if spellings else None


def _alternative(spelling: str) -> str:
    literal = re.escape(spelling)
    return literal if len(spelling) >= _SHORT else rf"(?<!\w){literal}(?!\w)"


def _spellings(secret: str) -> set[str]:
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quoted_text(secret)[1:-1],
        repr(secret)[1:-1],
        secret.replace("`", "``"),
        quote(secret, safe=""),
        quote_plus(secret),
    }


def secrets_in(params: Mapping[str, object]) -> frozenset[str]:
    """The values in a source's or an export's params that are secrets by their names, and those inside URLs."""
    return frozenset(secret for secret in _secrets(params) if secret)


def _secrets(value: object, name: str = "", *, hidden: bool = False) -> Iterator[str]:
    """The texts that are secrets by the name they stand under, and those inside URLs."""
    hidden = hidden or bool(_SECRET_NAMES.search(name))
    match value:
        case Mapping():
            for inner, each in value.items():
                yield from _secrets(each, str(inner), hidden=hidden)
        case list() | tuple():
            for each in value:
                yield from _secrets(each, name, hidden=hidden)
        case str() if hidden:
            yield from {value, value.rpartition(" ")[2]}  # "Bearer abc" hides abc too
        case str() if "://" in value:
            yield from _secrets_of_url(value)
        case _:
            return


def _secrets_of_url(url: str) -> Iterator[str]:
    yield from (unquote(value) for _, value in _IN_URL.findall(url) if value)
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
    except ValueError:
        return
    if parts.password:
        yield unquote(parts.password)
    yield from (value for name, value in parse_qsl(parts.query) if _SECRET_NAMES.search(name) and value)


PROJECT_FILE = "tidemill.toml"
ALONE = (".sql", ".py")  # files that can be run by themselves: a pipeline, or functions that keep tables


def find_project(start: Path | str = ".") -> Path | None:
    """The project file in the folder of `start`, or in the nearest folder above."""
    start = Path(start).absolute()
    if start.name == PROJECT_FILE and start.is_file():
        return start
    return next((file for folder in (start, *start.parents) if (file := folder / PROJECT_FILE).is_file()), None)


def files_alone(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that can be run by themselves, sorted by name; Python files are parsed and not run."""
    found = [each for each in files_in(folder) if each.suffix in ALONE and each.is_file()]
    return tuple(each for each in found if each.suffix == ".sql" or _has_tables(each))


def files_in(folder: Path, *, deep: bool = False) -> list[Path]:
    """What lies in a folder, and `deep` in those inside of it, sorted; nothing where there is none.

    One that may not be looked into is an error: nobody knows what it declares.
    """
    found: list[Path] = []
    for at, folders, files in os.walk(folder, onerror=_refuse_hidden):
        found += [Path(at, name) for name in (*folders, *files)]
        if not deep:
            break
    return sorted(found)


def _refuse_hidden(failure: OSError) -> None:
    if isinstance(failure, PermissionError):
        raise forbidden(failure.filename) from failure


def forbidden(target: Path | str) -> ArgumentError:
    """The error for a file or folder of a project that is there and may not be read."""
    return ArgumentError(
        "target.forbidden",
        f"{target} may not be read: permission denied.",
        "Allow the user who runs this to read it.",
    )


def is_project(start: Path | str = ".") -> bool:
    """Whether a command finds a project here: a project file here or above, or pipeline files in this folder."""
    folder = Path(start)
    return find_project(folder) is not None or (folder.is_dir() and bool(files_alone(folder)))


def _has_tables(file: Path) -> bool:
    """Whether one of its functions is decorated as a table."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return any(_is_table(each) for function in functions for each in function.decorator_list)


def _is_table(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=called):
            return _is_table(called)
        case ast.Attribute(value=ast.Name(id="tidemill"), attr="table") | ast.Name(id="table"):
            return True
        case _:
            return False


LOCAL = "local[*]"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`remote` is the address of a Spark Connect server, `master` that of a cluster; never both.

    `conf` wins over Tidemill's own settings.
    """

    master: str = LOCAL
    remote: str | None = None
    conf: dict[str, str] = field(default_factory=dict, repr=False)  # it may hold passwords
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """The Spark, as a user should see it: an address may hold a token behind its host."""
        if self.remote is not None:
            return f"Spark Connect at sc://{urlsplit(self.remote).netloc.partition(';')[0]}"
        return "embedded Spark" if is_local(self.at) else f"Spark at {self.at}"

    @property
    def secrets(self) -> frozenset[str]:
        """What no text may show: the address's token, and passwords and keys by the names of their settings."""
        return secrets_in({"remote": self.remote, **self.conf})

    @property
    def zone(self) -> tzinfo:
        """Where its days begin, as far as that is declared."""
        return zone_named(self.conf.get(SESSION_ZONE, "UTC"))

    @property
    def at(self) -> str:
        """The master, wherever it was given."""
        return self.conf.get("spark.master", self.master)


def is_local(master: str) -> bool:
    """Whether a master is this very process, and no cluster."""
    return master == "local" or master.startswith("local[")
