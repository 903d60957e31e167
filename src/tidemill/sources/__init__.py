"""Where rows come from: files by their path, and frames that a caller holds."""
