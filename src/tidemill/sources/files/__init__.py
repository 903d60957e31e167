"""Files as a source: which there are, what text looks like before Spark reads it, and reading without loss."""
