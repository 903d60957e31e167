"""Delta tables: their log, their statistics and their commits."""
