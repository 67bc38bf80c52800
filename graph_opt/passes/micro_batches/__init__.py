"""Trains on a batch in parts, one after the other, whose gradients are summed."""
