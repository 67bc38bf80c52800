"""Lookups that run ahead, with the rows that a step would have read itself."""
