"""Synchronous training on several ranks: tables copied to every rank, or sharded across them."""
