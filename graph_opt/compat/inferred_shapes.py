"""Static shapes of a graph, without the Python objects that TensorFlow makes of its nodes.

`tf.import_graph_def` gives each node device functions, colocations and control dependencies of the
scopes that are open, which takes three times as long as the import itself.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Optional, Tuple

from tensorflow.python.framework import c_api_util, importer

from graph_opt.compat import tf
from graph_opt.compat.c_functions import c_api

Dimensions = Optional[Tuple[Optional[int], ...]]


def inferred_shapes(graph_def: Any, names: AbstractSet[str]) -> Dict[str, Tuple[Dimensions, ...]]:
    """Shapes as `tf.import_graph_def` infers them.

    Args:
      graph_def: A GraphDef; not changed.
      names: Of the nodes to tell the shapes of.

    Returns:
      For each of these nodes those of its outputs: None is an unknown rank or dimension.

    Raises:
      tf.errors.OpError: TensorFlow cannot import the graph.
    """
    graph = tf.Graph()
    if not hasattr(graph, "new_operations"):  # Before TensorFlow 2.13.
        return _imported_shapes(graph, graph_def, names)
    options = c_api_util.ScopedTFImportGraphDefOptions()
    importer._PopulateTFImportGraphDefOptions(options.options, "", {}, None, False)
    with c_api_util.tf_buffer(graph_def.SerializeToString()) as serialized:
        with graph._c_graph.get() as c_graph:
            results = c_api.TF_GraphImportGraphDefWithResults(c_graph, serialized, options.options)
        c_api_util.ScopedTFImportGraphDefResults(results)  # Frees them.
    found: Dict[str, Tuple[Dimensions, ...]] = {}
    for c_operation in graph.new_operations():
        name = c_api.TF_OperationName(c_operation)
        if name in names:
            operation = tf.Operation._from_c_op(c_operation, graph)
            found[name] = tuple(map(_dimensions, operation.outputs))
    return found


def _imported_shapes(
    graph: Any, graph_def: Any, names: AbstractSet[str]
) -> Dict[str, Tuple[Dimensions, ...]]:
    given = tf.GraphDef()
    given.CopyFrom(graph_def)  # TensorFlow 1 adds defaults to what it imports.
    with graph.as_default():
        try:
            tf.import_graph_def(given, name="")
        except ValueError as error:
            raise tf.errors.InvalidArgumentError(None, None, str(error)) from error
    return {
        operation.name: tuple(
            None if each.shape.ndims is None else tuple(each.shape.as_list())
            for each in operation.outputs
        )
        for operation in graph.get_operations()
        if operation.name in names
    }


def _dimensions(tensor: Any) -> Dimensions:
    dimensions, is_unknown = tensor._shape
    return None if is_unknown else tuple(dimensions)
