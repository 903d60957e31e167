"""What users declare and what a table's log says: frozen dataclasses, validated when made. Knows no Spark."""
