"""One module per table format, behind the port `tidemill.contracts.store`."""
