"""How one step goes from its rows to its commit, and the other ways through it."""
