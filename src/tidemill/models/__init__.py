"""Model folders: one SELECT in each file, with metadata beside it, and functions in Python, to declarations.

Knows no Spark.
"""

from tidemill.models.files import FunctionFile, ModelFile, ModelFiles, find_models
from tidemill.models.functions import read_functions
from tidemill.models.reader import Models, read_models

__all__ = ["FunctionFile", "ModelFile", "ModelFiles", "Models", "find_models", "read_functions", "read_models"]
