"""Parquet datasets: plain folders of files with a log of their own."""
