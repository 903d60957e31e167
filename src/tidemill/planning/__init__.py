"""What a run will do, as data that can be printed. Knows no Spark."""
