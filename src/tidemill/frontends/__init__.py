"""Files that users write become declarations. Knows no Spark."""
