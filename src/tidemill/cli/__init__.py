"""One module per command group; one renderer for text and JSON."""
