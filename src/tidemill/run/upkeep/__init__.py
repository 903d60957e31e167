"""What is done to a table beside its steps."""
