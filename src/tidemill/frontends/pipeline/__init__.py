"""SQL pipeline files: from text to declarations, with every error at its place. Knows no Spark."""

from tidemill.frontends.pipeline.declarations import Declared
from tidemill.frontends.pipeline.files import read_pipelines
from tidemill.frontends.pipeline.tokens import cut_at_parameters, parameters_of
from tidemill.frontends.sql import (
    columns_of,
    inputs_of,
    output_columns,
    reads_clock,
    sums_of,
    unrepeatable,
    volatile_columns,
)

__all__ = [
    "Declared",
    "columns_of",
    "cut_at_parameters",
    "inputs_of",
    "output_columns",
    "parameters_of",
    "read_pipelines",
    "reads_clock",
    "sums_of",
    "unrepeatable",
    "volatile_columns",
]
