"""Writes a table elsewhere: to files, tables and databases."""
