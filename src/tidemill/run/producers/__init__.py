"""What gives a table its rows: queries, functions, joins, and outside data by name."""
