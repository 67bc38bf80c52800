"""The exit codes of `graph-opt`, and the exception that leads to one of them."""

from __future__ import annotations

REFUSED = 1
DIFFERENT = 1
WRONG_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it.


class WrongInput(Exception):
    """A file, option or argument is wrong; the text is one line for the user."""
