"""Files as a source: which there are, what to know of text before Spark reads it, and reading it without loss."""
