"""What the exit codes of `graph-opt` mean."""

from __future__ import annotations

REFUSED = 1
WRONG_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it.
