"""Where rows come from: files, databases, HTTP, functions, any Spark data source, and frames that a caller holds.

`protocol` says what a connector is, `registry` finds the one for a declared source; there is a module per kind.
"""
