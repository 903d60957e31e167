"""Model folders: one SELECT in each file, with metadata beside it, to declarations. Knows no Spark."""

from tidemill.models.files import ModelFile, ModelFiles, find_models
from tidemill.models.reader import Models, read_models

__all__ = ["ModelFile", "ModelFiles", "Models", "find_models", "read_models"]
