"""Where rows come from: files, databases, HTTP, functions, any Spark data source, and frames of a caller.

`protocol` says what a connector is, `registry` finds the one for a declared source.
"""
