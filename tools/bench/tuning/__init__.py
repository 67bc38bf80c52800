"""Tuned stages against a sweep of fixed settings."""
