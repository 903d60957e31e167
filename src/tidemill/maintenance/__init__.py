"""What is done to a table beside its runs: backup, restore, drop, repair, compaction, watermarks."""
