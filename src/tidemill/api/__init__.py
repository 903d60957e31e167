"""The calls that users make from Python, and the project on which they and all commands work."""
