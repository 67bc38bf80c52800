"""The one way to say that something cannot be known."""

from __future__ import annotations


class SizeUnknown(Exception):
    """The size of a tensor that nobody told.

    Args:
      tensor: Its name.
      why: What is not known about it.
      option: What would tell it; "" if nothing does.
    """

    def __init__(self, tensor: str, why: str, option: str) -> None:
        super().__init__("{}: {}".format(tensor, why))
        self.tensor = tensor
        self.why = why
        self.option = option
