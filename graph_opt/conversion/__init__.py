"""Saved tables from one format to another."""
