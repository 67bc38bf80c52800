"""Fails in the way that its argument says."""

import sys


def fail(how: str) -> None:
    if how == "exit text":
        sys.exit("a last word")
    if how == "interrupt":
        raise KeyboardInterrupt
    try:
        int(how)
    except ValueError as error:
        raise ValueError("no such way") from error


fail(sys.argv[1])
