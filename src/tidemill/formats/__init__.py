"""One package per table format, behind the port in `base`."""
