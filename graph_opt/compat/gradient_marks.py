"""Marks the gradient of a whole variable where an optimizer computes its update by stock ops."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.live_graph import set_attribute

_MARK = "_graph_opt_gradient"


def marked_gradient(gradient: Any) -> Any:
    """The gradient, as a node that passes can tell from all else that the update computes with."""
    marked = tf.identity(gradient, name="gradient")
    set_attribute(marked.graph, marked.op.name, _MARK, tf.AttrValue(b=True))
    return marked


def is_marked_gradient(node: Any) -> bool:
    """Whether a NodeDef is such a node."""
    return _MARK in node.attr
