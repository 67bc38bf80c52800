"""The models that are trained, and their data."""
