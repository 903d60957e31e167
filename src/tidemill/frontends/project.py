"""A project: `tidemill.toml` with one profile over it, or a pipeline file alone, on defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tidemill.errors import ArgumentError, did_you_mean
from tidemill.frontends.project_file import Filling, check_project, read_dotenv, read_toml
from tidemill.model import DEFAULT_SCHEMA, FileErrors, Naming, at_home, naming_remedy, suggestion
from tidemill.model.project import (
    ALONE,
    LOCAL,
    PROJECT_FILE,
    SparkSettings,
    Variables,
    as_text,
    files_alone,
    files_in,
    find_project,
    forbidden,
)
from tidemill.model.source import source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidemill.errors import Origin
    from tidemill.frontends.shape import Document, Key
    from tidemill.model.source import Source

_TABLE_NAME = re.compile(r"\w+\.\w+")
Data = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Warehouse:
    """Where tables are: `path`/schema/table. `path` is absolute, or a URL. `catalog` may stand before their names.

    `single_writer` is the user's promise that no other process writes to them.
    """

    path: str
    schema: str = DEFAULT_SCHEMA
    format: str = "delta"
    single_writer: bool = False
    catalog: str | None = None

    @property
    def naming(self) -> Naming:
        return Naming(self.schema, self.catalog)

    def has_one_writer(self, path: str) -> bool:
        """Whether that was promised of the table at a path."""
        return self.single_writer and path.startswith(f"{self.path.rstrip('/')}/")


@dataclass(frozen=True, slots=True)
class OutsideSource:
    """Data that others keep, and that queries read by this name."""

    name: str
    kind: str
    params: dict[str, object] = field(repr=False)
    origin: Origin

    def source(self, filling: Filling, folder: Path) -> Source:
        """As what can be read, with the values of its variables."""
        params, secrets = filling.fill(self.params, self.origin), frozenset(filling.secrets)
        return source_of(self.name, self.kind, params, origin=self.origin, folder=folder, secrets=secrets)


@dataclass(frozen=True, slots=True)
class Flags:
    materialization_change_behavior: str = "warn"
    table_refresh: str | None = None
    refresh_check: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """What all commands share. `file` is None for a pipeline file alone."""

    name: str
    folder: Path
    warehouse: Warehouse
    spark: SparkSettings = field(default_factory=SparkSettings)
    vars: dict[str, str] = field(default_factory=dict)
    sources: dict[str, OutsideSource] = field(default_factory=dict)
    flags: Flags = field(default_factory=Flags)
    profile: str | None = None
    file: Path | None = None
    lone_pipeline: Path | None = None

    @classmethod
    def load(cls, start: Path | str = ".", profile: str | None = None) -> ProjectSettings:
        """The project that a folder or a file is in: by the project file here or above it.

        Outside of projects a pipeline file is one by itself, and a folder with one such file stands for it.
        """
        start = Path(start)
        file = find_project(start)
        if file is not None:
            return _load(file, profile)
        alone = start if start.suffix in ALONE and not start.is_dir() else _only_file(start)
        if profile is not None:
            raise _no_profile(profile, [])
        folder = alone.absolute().parent
        return cls(alone.stem, folder, Warehouse(str(folder / "warehouse")), lone_pipeline=alone)

    @property
    def pipelines(self) -> tuple[Path, ...]:
        """The pipeline files, sorted by name."""
        if self.lone_pipeline is not None:
            return (self.lone_pipeline,) if self.lone_pipeline.suffix == ".sql" else ()
        return tuple(file for file in files_in(self.folder / "pipelines") if file.suffix == ".sql")

    def table_path(self, name: str) -> str:
        """Where the table of this name is; a name without a schema is in the warehouse's."""
        full = self.warehouse.naming.full(name)
        if not _TABLE_NAME.fullmatch(full):
            remedy = naming_remedy(full)
            remedy = f"{remedy[0].upper()}{remedy[1:]}."
            raise ArgumentError("table.bad_name", f"{name!r} is no name of a table.", remedy)
        return "/".join([self.warehouse.path.rstrip("/"), *full.split(".")])

    def variables(self, given: Mapping[str, str] | None = None) -> Variables:
        """Variables in their order; `given` is what --var and --vars say. Reads `.env` and the environment."""
        return Variables(given=given or {}, project=self.vars, dotenv=read_dotenv(self.folder / ".env"))

    def engine(self, filling: Filling) -> SparkSettings:
        """Which Spark does the work, with the values of variables."""
        given, at = self.spark, self.spark.origin
        master, remote = filling.fill(given.master, at), filling.fill(given.remote, at)
        return SparkSettings(master, remote, filling.fill(given.conf, at), at)

    def engine_with(self, given: Mapping[str, str] | None = None) -> SparkSettings:
        """The same, with the values that variables have when these are given."""
        return self.engine(Filling(self.variables(given)))

    def outside(self, filling: Filling) -> dict[str, Source]:
        """Outside data by name, in lower case and with its schema. Relative paths start at the project's folder."""
        naming, found = self.warehouse.naming, self.sources.values()
        return {naming.key(each.name): each.source(filling, self.folder) for each in found}


def _only_file(folder: Path) -> Path:
    """The one file of a folder that can be run by itself."""
    found = files_alone(folder) if folder.is_dir() else ()
    if len(found) == 1:
        return found[0]
    if not found:
        raise ArgumentError(
            "project.not_found",
            f"There is no {PROJECT_FILE} in {folder.absolute()} or above it.",
            "Make a project with tidemill init NAME, or name a pipeline file or a Python file.",
        )
    raise ArgumentError(
        "project.several_files",
        f"There is no {PROJECT_FILE} here, and {len(found)} pipeline files: {', '.join(map(str, found))}.",
        f"Name one of them: {found[0]}. A table can also be given by its path: {folder / 'warehouse'}/main/TABLE.",
    )


def target_here(target: Path | str | None, project: ProjectSettings) -> str | None:
    """What commands have to be given so that they find this project from the current folder; None where it is nothing.

    `target` is what the command was given that found it.
    """
    if target is None:
        return None
    named, here = Path(target).absolute(), find_project()
    if project.file is not None:
        own = named.is_dir() or named in project.pipelines or named.is_relative_to(project.folder / "models")
        return None if own and here == project.file else str(target)
    alone = files_alone(Path()) if here is None else ()
    is_only = len(alone) == 1 and project.lone_pipeline is not None and alone[0].samefile(project.lone_pipeline)
    return None if is_only else str(target)


def must_exist(target: Path) -> None:
    """What is named is there, and something that can be run; else the project above it would be used in its place."""
    try:
        is_there = target.exists()
    except PermissionError as failure:
        raise forbidden(target) from failure
    if not is_there:
        close = _meant(target)
        remedy = f"Did you mean {close}?" if close else "Name a pipeline file, or a project's folder."
        raise ArgumentError("target.missing", f"There is no file or folder {target}.", remedy)
    if not target.is_dir() and target.suffix not in ALONE and target.name != PROJECT_FILE:
        raise ArgumentError(
            "target.no_pipeline",
            f"{target} is neither a pipeline file nor a Python file.",
            "These end in .sql and .py; or name a project's folder.",
        )


def _meant(target: Path) -> Path | None:
    """The file that can be run and has the name without its ending, or one that looks much like it."""
    beside = [each.name for each in target.parent.glob("*") if each.suffix in ALONE]
    whole = next((name for name in sorted(beside, reverse=True) if Path(name).stem == target.name), None)
    close = whole or did_you_mean(target.name, beside)
    return target.with_name(close) if close else None


def _load(file: Path, profile: str | None) -> ProjectSettings:
    document = read_toml(file)
    check_project(document)
    _refuse(document)
    data = cast("Data", document.value)
    above = _profile(data, profile)
    settings = _overlay(data, above)
    _check_engine(document, _table(settings, "spark"))
    warehouse = _warehouse(file.parent, _table(settings, "warehouse"))
    given = _table(data, "sources"), _table(above, "sources")
    sources = _sources(document, profile, warehouse.naming, *given)
    _refuse(document)
    return ProjectSettings(
        name=str(settings.get("name", file.parent.name)),
        folder=file.parent,
        warehouse=warehouse,
        spark=_spark(document, _table(settings, "spark")),
        vars={name: as_text(value) for name, value in _table(settings, "vars").items()},
        sources=sources,
        flags=Flags(**cast("dict[str, str]", _table(settings, "flags"))),
        profile=profile,
        file=file,
    )


def _refuse(document: Document) -> None:
    if document.errors:
        raise FileErrors(document.errors)


def _profile(data: Data, name: str | None) -> Data:
    profiles = _table(data, "profiles")
    if name is None:
        return {}
    if name not in profiles:
        raise _no_profile(name, list(profiles))
    return _table(profiles, name)


def _no_profile(name: str, known: list[str]) -> ArgumentError:
    otherwise = (
        f"the profiles are {', '.join(known)}." if known else f"declare it as [profiles.{name}.…] in {PROJECT_FILE}."
    )
    remedy = suggestion(name, known, otherwise)
    return ArgumentError("project.unknown_profile", f"There is no profile {name}.", remedy[:1].upper() + remedy[1:])


def _overlay(below: Data, above: Data) -> dict[str, object]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _overlay(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


def _table(data: Data, key: str) -> Data:
    found = data.get(key, {})
    return found if isinstance(found, Mapping) else {}


def _warehouse(folder: Path, given: Data) -> Warehouse:
    path = str(given.get("path", "warehouse"))
    if "://" not in path:
        path = str(folder / at_home(path))
    return Warehouse(
        path,
        str(given.get("schema", DEFAULT_SCHEMA)),
        str(given.get("format", "delta")),
        single_writer=bool(given.get("single_writer", False)),
        catalog=None if "catalog" not in given else str(given["catalog"]),
    )


def _check_engine(document: Document, given: Data) -> None:
    if {"master", "remote"} <= given.keys():
        document.note(("spark",), "project.two_engines", "spark has a master and a remote", "keep one of them")
    if not str(given.get("remote", "sc://")).startswith(("sc://", "${")):
        remedy = 'write remote = "sc://host:15002", or name a cluster as master'
        document.note(("spark", "remote"), "project.bad_value", "spark.remote must begin with sc://", remedy)


def _spark(document: Document, given: Data) -> SparkSettings:
    remote = given.get("remote")
    return SparkSettings(
        master=str(given.get("master", LOCAL)),
        remote=None if remote is None else str(remote),
        conf=_flat(_table(given, "conf")),
        origin=document.places.at("spark").origin if given else None,
    )


def _flat(conf: Data, prefix: str = "") -> dict[str, str]:
    """`spark.sql.x = 1` without quotes is a table in a table to TOML, and one setting to Spark."""
    found: dict[str, str] = {}
    for key, value in conf.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": as_text(value)}
    return found


def _sources(
    document: Document, profile: str | None, naming: Naming, below: Data, above: Data
) -> dict[str, OutsideSource]:
    """By name, in lower case; a profile may change a part of one."""
    base, over = dict(_by_name(("sources",), below)), dict(_by_name(("profiles", profile or "", "sources"), above))
    found: dict[str, OutsideSource] = {}
    for name in base | over:
        key, changed = over.get(name, base.get(name, ((), {})))
        params = _overlay(base[name][1], changed) if name in base else dict(changed)
        if not _TABLE_NAME.fullmatch(naming.full(name)):
            document.note(key, "project.bad_source_name", f"{name} is no name of a table", "name it schema.table")
            continue
        if "type" not in params:
            document.note(key, "project.source_without_type", f"source {name} has no type", 'write type = "parquet"')
            continue
        kind = str(params.pop("type")).lower()
        found[name.lower()] = OutsideSource(name, kind, params, document.places.at(*key).origin)
    return found


def _by_name(key: Key, given: Data) -> Iterator[tuple[str, tuple[Key, Data]]]:
    """Sources with their keys; [sources.schema.table] without quotes is a table in a table."""
    for part, value in given.items():
        table = cast("Data", value)
        if table and all(isinstance(each, Mapping) for each in table.values()):
            yield from ((f"{part}.{name}", each) for name, each in _by_name((*key, part), table))
        else:
            yield part, ((*key, part), table)
