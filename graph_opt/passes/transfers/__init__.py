"""Joins tensors that cross between two tasks, so that fewer messages are sent."""
