"""Dumps of a graph before and after the passes, switched on by an environment variable.

`ASYNC_EMBEDDING_DUMP_GRAPH=true` writes `graph_before_async_embedding.pbtxt` and
`graph_after_async_embedding.pbtxt` to the working directory, under the names that DeepRec uses.
"""

from __future__ import annotations

import os
from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.graph.elided_values import ELIDED
from graph_opt.inspect.graph_files import write_graph
from graph_opt.inspect.large_values import LARGE_VALUE_BYTES

VARIABLE = "ASYNC_EMBEDDING_DUMP_GRAPH"

_FILES = {
    "before": "graph_before_async_embedding.pbtxt",
    "after": "graph_after_async_embedding.pbtxt",
}


def dump_graph(graph_def: Any, which: str) -> Optional[str]:
    """Writes `graph_def` as text if `ASYNC_EMBEDDING_DUMP_GRAPH` asks for it.

    The values of constants of more than 1 MiB are left out: their nodes keep dtype and shape and
    get the attribute `_elided_bytes`. A dump that cannot be written causes a warning, not an error:
    it must not end training.

    Args:
      graph_def: The graph; not changed.
      which: "before" or "after".

    Returns:
      Path of the file; None if no file was written.

    Raises:
      ValueError: `which` is something else.

    Example:
      >>> dump_graph(graph.as_graph_def(), "before")  # with the variable set
      '/home/me/graph_before_async_embedding.pbtxt'
    """
    if which not in _FILES:
        raise ValueError("which must be one of {}, not {!r}".format(sorted(_FILES), which))
    if not is_wanted():
        return None
    path = os.path.abspath(_FILES[which])
    try:
        write_graph(without_large_values(graph_def), path)
    except tf.errors.OpError as error:
        tf.logging.warning("graph_opt: the graph could not be dumped: %s", error.message)
        return None
    tf.logging.info("graph_opt: wrote %s", path)
    return path


def is_wanted() -> bool:
    """Whether the environment asks for dumps; ask this before an expensive `as_graph_def`."""
    return os.environ.get(VARIABLE, "").strip().lower() in ("true", "1")


def without_large_values(graph_def: Any) -> Any:
    """A copy of the graph in which no constant holds more than 1 MiB."""
    result = tf.GraphDef()
    result.versions.CopyFrom(graph_def.versions)
    for node in graph_def.node:
        _add_without_large_value(result.node, node)
    for function in graph_def.library.function:
        copy = result.library.function.add()
        copy.CopyFrom(function)
        del copy.node_def[:]
        for node in function.node_def:
            _add_without_large_value(copy.node_def, node)
    if graph_def.library.gradient:
        result.library.gradient.extend(graph_def.library.gradient)
    return result


def _add_without_large_value(nodes: Any, node: Any) -> None:
    if node.op != "Const" or node.ByteSize() <= LARGE_VALUE_BYTES:
        nodes.add().CopyFrom(node)
        return
    value = node.attr["value"].tensor
    stub = nodes.add(name=node.name, op=node.op, input=node.input, device=node.device)
    for name in node.attr:
        if name != "value":
            stub.attr[name].CopyFrom(node.attr[name])
    stub.attr["value"].tensor.dtype = value.dtype
    stub.attr["value"].tensor.tensor_shape.CopyFrom(value.tensor_shape)
    stub.attr[ELIDED].i = value.ByteSize()
