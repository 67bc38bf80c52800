"""What arguments may be: each function makes a value of a text, or says what is wrong with it."""

from __future__ import annotations

import argparse
import math
from typing import Callable, List, Tuple


def number_from(least: int, what: str = "a number") -> Callable[[str], int]:
    """Makes a whole number, `least` or more."""

    def convert(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError("{!r} is not {}, {} or more".format(text, what, least))
        return int(text)

    return convert


def number_of(what: str, is_valid: Callable[[float], bool]) -> Callable[[str], float]:
    """Makes a finite number that is valid."""

    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and is_valid(number)):
            raise argparse.ArgumentTypeError("{!r} is not {}".format(text, what))
        return number

    return convert


def address(text: str) -> Tuple[str, int]:
    """Makes a host and a port."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise argparse.ArgumentTypeError(
            "{!r} is not HOST:PORT with a port from 1 to 65535".format(text)
        )
    return host, int(port)


def named_tensor(text: str) -> Tuple[str, str]:
    """Makes a name in a signature and the name of a tensor."""
    name, equals, tensor = text.partition("=")
    if not (name and equals and tensor):
        raise argparse.ArgumentTypeError(
            "{!r} is not NAME=TENSOR, such as user=user:0".format(text)
        )
    return name, tensor if ":" in tensor else tensor + ":0"


def names(text: str) -> List[str]:
    """Makes a list of names."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError("{!r} is not NAME or NAME,NAME".format(text))
    return found
