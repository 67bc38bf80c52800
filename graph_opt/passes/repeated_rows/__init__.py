"""Computes once what is the same in all rows of a request."""
