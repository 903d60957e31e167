"""Writes a table elsewhere: to files and databases."""
