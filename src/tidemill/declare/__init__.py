"""What users declare: frozen, validated when made, no Spark."""
