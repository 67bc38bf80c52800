"""Starts the processes of a training on this machine, and ends them together."""
