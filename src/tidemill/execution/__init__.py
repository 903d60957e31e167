"""Executes plans: rows are read, checked and committed, step after step."""
