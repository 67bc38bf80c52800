"""Lookups, gradients and updates that become group ops: chosen, checked for cycles, written."""
