"""SQL pipeline files: from text to statements, with every error at its place. Knows no Spark."""

from tidemill.language.errors import LanguageError, LanguageErrors, excerpt
from tidemill.language.pipeline import Pipeline, read_pipeline, read_pipelines
from tidemill.language.statements import (
    Append,
    CreateTable,
    Export,
    FullMerge,
    Include,
    IncrementalBy,
    Load,
    Merge,
    Query,
    Replace,
    SetVariable,
    SourceStatement,
)

__all__ = [
    "Append",
    "CreateTable",
    "Export",
    "FullMerge",
    "Include",
    "IncrementalBy",
    "LanguageError",
    "LanguageErrors",
    "Load",
    "Merge",
    "Pipeline",
    "Query",
    "Replace",
    "SetVariable",
    "SourceStatement",
    "excerpt",
    "read_pipeline",
    "read_pipelines",
]
