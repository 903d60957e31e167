"""One module per command group; text and JSON renderers."""
