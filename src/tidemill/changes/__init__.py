"""How rows and a strategy become one operation on a table."""
