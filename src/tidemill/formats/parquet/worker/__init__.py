"""What Spark's workers do: write rows to new files, and rewrite files with rows replaced or removed.

Sent to them by value, with all that it imports of Tidemill. Every call writes to a name of its own: one that is
tried again leaves a file that nobody refers to, and nothing else.
"""
