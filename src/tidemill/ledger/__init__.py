"""The SQLite file of runs and steps: a history and a cache. It decides nothing and can be rebuilt from the tables."""
