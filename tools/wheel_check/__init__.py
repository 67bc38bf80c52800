"""Checks a wheel as its users get it: in an environment of its own, without a compiler."""
