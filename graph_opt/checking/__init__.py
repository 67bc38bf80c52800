"""Runs of the same training, stock and rewritten, recorded and compared."""
