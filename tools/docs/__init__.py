"""Builds the documentation as a site."""
