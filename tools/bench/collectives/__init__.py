"""Synchronous training on several ranks: tables copied to every rank, or divided among them."""
