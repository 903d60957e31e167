"""Plain Parquet datasets as tables: Spark finds what changes, Arrow rewrites the files that hold it."""
