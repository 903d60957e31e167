"""Looks at sources and proposes how to read them incrementally, where that is safe."""
