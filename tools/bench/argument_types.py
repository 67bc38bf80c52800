"""Types of command-line arguments: what argparse calls with the text."""

from __future__ import annotations

import argparse
from typing import Tuple


def sizes(text: str) -> Tuple[int, ...]:
    """Layer sizes written as "512-256-64"."""
    values = tuple(int(part) for part in text.split("-"))
    if min(values) < 1:
        raise ValueError(f"layer sizes must be positive: {text}")
    return values


def count(text: str) -> int:
    """An integer >= 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative: {text}")
    return value


def positive(text: str) -> int:
    """An integer >= 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1: {text}")
    return value


def milliseconds(text: str) -> float:
    """A duration >= 0 in milliseconds."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of milliseconds >= 0: {text}")
    return value
