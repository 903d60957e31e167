"""SQL pipeline files: from text to statements, with every error at its place. Knows no Spark."""

from tidemill.declare.templates import WINDOW_PARAMETERS
from tidemill.language.errors import LanguageError, LanguageErrors, excerpt
from tidemill.language.parameters import cut_at_parameters, parameters_of
from tidemill.language.pipeline import Pipeline, read_pipeline, read_pipelines
from tidemill.language.queries import columns_of, inputs_of, unrepeatable
from tidemill.language.statements import (
    Append,
    CreateJoin,
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
from tidemill.language.sums import sums_of
from tidemill.language.volatile import output_columns, reads_clock, volatile_columns

__all__ = [
    "WINDOW_PARAMETERS",
    "Append",
    "CreateJoin",
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
    "columns_of",
    "cut_at_parameters",
    "excerpt",
    "inputs_of",
    "output_columns",
    "parameters_of",
    "read_pipeline",
    "read_pipelines",
    "reads_clock",
    "sums_of",
    "unrepeatable",
    "volatile_columns",
]
