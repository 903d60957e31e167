"""APIs: asking politely, page after page, as a source or from table functions."""
