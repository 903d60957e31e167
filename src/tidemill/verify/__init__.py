"""Proves on the user's own data that a table equals what one full run would give."""
