"""Does what a plan says; the only place that tries again."""
