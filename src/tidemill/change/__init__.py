"""How each strategy turns rows into one of four operations."""
