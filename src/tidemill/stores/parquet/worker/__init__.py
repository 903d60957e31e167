"""What Spark's workers do: write rows to new files, and rewrite a file with some of its rows replaced or gone.

Sent to them by value, and so is all that it imports of Tidemill's. Every call writes to a name of its own: one that is
repeated, or that outlives its run, writes a file that nobody names.
"""
