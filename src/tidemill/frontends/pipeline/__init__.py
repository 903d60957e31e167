"""SQL pipeline files: from text to declarations, with every error at its place. Knows no Spark."""

from tidemill.frontends.pipeline.declarations import Declared
from tidemill.frontends.pipeline.files import read_pipelines
from tidemill.frontends.pipeline.tokens import cut_at_parameters, parameters_of, statement_at

__all__ = ["Declared", "cut_at_parameters", "parameters_of", "read_pipelines", "statement_at"]
