"""Graphs that are exported as another graph: private parts of TensorFlow in one place.

Whatever leaves a process as a GraphDef or MetaGraphDef (SavedModels, checkpoints' `.meta`,
`graph.pbtxt`, event files, frozen graphs, `session.graph_def`) is made by two methods of
`tf.Graph`. A graph given to `export_through` gets a class in which these two pass their result
through a function; everything else about this graph, and every other graph, remains TensorFlow's.
Sessions read the graph in C++, as it is.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from tensorflow.python.framework import meta_graph

from graph_opt.compat import tf

# Separates the name of an operation from those of the nodes that are exported in its place.
STAND_IN_SCOPE = "/tensorflow/"
_OUTPUT_SHAPES = "_output_shapes"

# TensorFlow exports the nodes of C++ and then asks Python for their shapes. It raises a KeyError
# for one that another thread is just adding, which Python gets to know a moment later.
_ATTEMPTS = 1000
_PAUSE_SECONDS = 1e-3

Conversion = Callable[[Any, Any], Any]
"""From a GraphDef, which it may change, and its live graph to the GraphDef to export."""


def export_through(graph: Any, convert: Conversion) -> None:
    """From now on, exports of this graph are what `convert` makes of it.

    Args:
      graph: A `tf.Graph`, finalized or not.
      convert: The function, which must not keep a reference to the graph. It replaces an earlier
        one.
    """
    graph._graph_opt_conversion = convert
    if _operations_of_version_1(graph) is not None:
        _note_exports()
    if not isinstance(graph, _Converted):
        stock: Any = type(graph)
        graph.__class__ = _converted_class(stock)


def _operations_of_version_1(graph: Any) -> Optional[Dict[int, Any]]:
    """Where graphs of TensorFlow 1 have their operations; None for those of later releases."""
    found: Optional[Dict[int, Any]] = getattr(graph, "__dict__", {}).get("_nodes_by_id")
    return found


def conversion_of(graph: Any) -> Optional[Conversion]:
    """What `export_through` was given for this graph; None if it is exported as it is."""
    return graph._graph_opt_conversion if isinstance(graph, _Converted) else None


def running_graph_def(graph: Optional[Any] = None, add_shapes: bool = False) -> Any:
    """The graph as sessions run it, with graph_opt's nodes.

    `graph.as_graph_def()`, and so everything that leaves the process, is the user's own graph.

    Args:
      graph: A `tf.Graph`; the default graph if None.
      add_shapes: As for `tf.Graph.as_graph_def`.

    Returns:
      A GraphDef.

    Example:
      >>> graph_opt.optimize_graph(graph, config)
      >>> tf.io.write_graph(graph_opt.running_graph_def(graph), "/tmp", "rewritten.pbtxt")
    """
    if graph is None:
        graph = tf.get_default_graph()
    stock: Any = super(_Converted, graph) if isinstance(graph, _Converted) else graph
    for _ in range(_ATTEMPTS - 1):
        try:
            return stock._as_graph_def(None, add_shapes)[0]
        except KeyError:
            time.sleep(_PAUSE_SECONDS)
    return stock._as_graph_def(None, add_shapes)[0]


def add_functions(graph: Any, graph_def: Any) -> None:
    """Adds the functions of a graph to a GraphDef that has none, as TensorFlow's own do."""
    graph._copy_functions_to_graph_def(graph_def, 0)


class _InExport(threading.local):
    count = 0


_in_export = _InExport()


@functools.lru_cache(maxsize=None)
def _note_exports() -> None:
    """Lets `_nodes_by_id` know whether it is read for an export."""
    stock = meta_graph.export_scoped_meta_graph

    @functools.wraps(stock)
    def export_scoped_meta_graph(*arguments: Any, **named: Any) -> Any:
        _in_export.count += 1
        try:
            return stock(*arguments, **named)
        finally:
            _in_export.count -= 1

    meta_graph.export_scoped_meta_graph = export_scoped_meta_graph


class _Converted:
    """A mixin in front of the class of a graph."""

    _graph_opt_conversion: Conversion
    _graph_opt_nodes: Optional[_ExportedNodes] = None

    def _as_graph_def(self, *arguments: Any, **named: Any) -> Any:
        base: Any = super()
        graph_def, version = base._as_graph_def(*arguments, **named)
        return self._graph_opt_conversion(graph_def, self), version

    def get_operation_by_name(self, name: str) -> Any:
        """Like `tf.Graph.get_operation_by_name`.

        For a node that is only in the exported graph, returns the operation that it replaces:
        TensorFlow asks for it when it exports where each node was created.
        """
        base: Any = super()
        try:
            return base.get_operation_by_name(name)
        except KeyError:
            operation, stand_in, _ = str(name).partition(STAND_IN_SCOPE)
            if not stand_in:
                raise
            return base.get_operation_by_name(operation)

    @property
    def _nodes_by_id(self) -> Dict[int, _ExportedNode]:
        """Read only by `tf.train.export_meta_graph` with a scope or without devices.

        It asks for the whole dict once for each node, hence the cache. TensorFlow 1's graphs have
        their operations there, too.
        """
        graph: Any = self
        operations = _operations_of_version_1(self)
        if operations is not None and not _in_export.count:
            return operations
        cached = self._graph_opt_nodes
        if cached is None or cached.version != graph.version:
            nodes = [_exported(node) for node in graph.as_graph_def(add_shapes=True).node]
            cached = _ExportedNodes(graph.version, dict(enumerate(nodes)))
            self._graph_opt_nodes = cached
        return cached.nodes


class _ExportedTensor(NamedTuple):
    shape: Any

    def get_shape(self) -> Any:
        return self.shape


class _ExportedNode(NamedTuple):
    """The parts of an operation that `tf.train.export_meta_graph` reads."""

    name: str
    node_def: Any
    outputs: List[_ExportedTensor]


class _ExportedNodes(NamedTuple):
    version: int
    nodes: Dict[int, _ExportedNode]


def _exported(node: Any) -> _ExportedNode:
    copy = tf.NodeDef()
    copy.CopyFrom(node)
    shapes = [tf.TensorShape(shape) for shape in node.attr[_OUTPUT_SHAPES].list.shape]
    copy.attr.pop(_OUTPUT_SHAPES, None)
    return _ExportedNode(node.name, copy, [_ExportedTensor(shape) for shape in shapes])


@functools.lru_cache(maxsize=None)
def _converted_class(base: Any) -> Any:
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__}
    return type(base.__name__, (_Converted, base), names)
