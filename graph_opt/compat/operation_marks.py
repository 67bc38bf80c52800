"""Attributes of our own on operations of a live graph."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf


def has_attribute(operation: Any, name: str) -> bool:
    """Whether an operation has an attribute, of whatever value."""
    try:
        operation.get_attr(name)
    except ValueError:
        return False
    return True


def mark_once(operation: Any, name: str, text: str) -> None:
    """Gives an operation an attribute, unless it has one of this name.

    Args:
      operation: Of a graph, before a session runs it.
      name: Of the attribute; it begins with `_`, as those do that no op declares.
      text: Its value.
    """
    if not has_attribute(operation, name):
        operation._set_attr(name, tf.AttrValue(s=text.encode("utf-8")))
