"""Tensors between two tasks, joined so that fewer messages are sent."""
