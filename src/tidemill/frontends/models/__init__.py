"""Model folders: one SELECT in each file, with metadata beside it, and table functions in Python. Knows no Spark."""

from tidemill.frontends.models.functions import read_functions
from tidemill.frontends.models.reader import FunctionFile, ModelFile, ModelFiles, Models, find_models, read_models

__all__ = ["FunctionFile", "ModelFile", "ModelFiles", "Models", "find_models", "read_functions", "read_models"]
