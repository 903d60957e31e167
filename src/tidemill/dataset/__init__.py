"""Plain Parquet folders with a log of their own: how they are committed to, read and recovered. Knows no Spark."""
