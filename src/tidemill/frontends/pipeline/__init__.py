"""SQL pipeline files: from text to statements and declarations, with every error at its place. Knows no Spark."""

from tidemill.frontends.pipeline.files import Pipeline, read_pipeline, read_pipelines
from tidemill.frontends.pipeline.statements import (
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
from tidemill.frontends.pipeline.tokens import cut_at_parameters, parameters_of
from tidemill.frontends.sql.queries import columns_of, inputs_of, unrepeatable
from tidemill.frontends.sql.volatile import output_columns, reads_clock, sums_of, volatile_columns
from tidemill.model.mistakes import FileError, FileErrors, excerpt
from tidemill.model.window import WINDOW_PARAMETERS

__all__ = [
    "WINDOW_PARAMETERS",
    "Append",
    "CreateJoin",
    "CreateTable",
    "Export",
    "FileError",
    "FileErrors",
    "FullMerge",
    "Include",
    "IncrementalBy",
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
