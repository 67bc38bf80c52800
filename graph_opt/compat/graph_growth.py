"""A graph that grows while it is in use: private parts of TensorFlow in one place.

A session takes over the nodes that its graph got since the session's last run, and ignores edits
to them from then on. Sessions that TensorFlow's session creators open take over everything when
they run their initializers, but the creators finalize the graph before.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List

from graph_opt.compat import tf


def before_finalizing(graph: Any, call: Callable[[Any], None]) -> None:
    """From now on, `call(graph)` is called whenever this graph is about to be finalized.

    Args:
      graph: A `tf.Graph`, finalized or not.
      call: The function, which must not keep a reference to the graph. It replaces an earlier one.
    """
    graph._graph_opt_before_finalizing = call
    if not isinstance(graph, _Heard):
        stock: Any = type(graph)
        graph.__class__ = _heard_class(stock)


def finalize_silently(graph: Any) -> None:
    """Finalizes a graph without the call of `before_finalizing`."""
    tf.Graph.finalize(graph)


def operations_from(graph: Any, first: int) -> List[Any]:
    """The graph's operations in the order in which they were added, without the first ones."""
    return list(graph.get_operations()[first:])


def is_reference(tensor: Any) -> bool:
    """Whether a tensor is a variable itself rather than its value: a reference or a handle."""
    return bool(tensor.dtype._is_ref_dtype) or tensor.dtype == tf.resource


class _Heard:
    """A mixin in front of the class of a graph."""

    _graph_opt_before_finalizing: Callable[[Any], None]

    def finalize(self) -> None:
        """Like `tf.Graph.finalize`."""
        graph: Any = self
        if not graph.finalized:
            self._graph_opt_before_finalizing(graph)
        base: Any = super()
        base.finalize()


@functools.lru_cache(maxsize=None)
def _heard_class(base: Any) -> Any:
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__}
    return type(base.__name__, (_Heard, base), names)
