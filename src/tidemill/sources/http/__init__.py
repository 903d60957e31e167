"""APIs: requests at a pace, page after page, as a source or from table functions."""
