"""Chooses the lookups, gradients and updates to fuse, avoids cycles, and writes the group ops."""
