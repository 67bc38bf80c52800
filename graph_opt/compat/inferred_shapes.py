"""Static shapes of a graph, without the Python objects that TensorFlow makes of its nodes.

`tf.import_graph_def` gives each node device functions, colocations and control dependencies of the
scopes that are open, which takes three times as long as the import itself.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from tensorflow.python.client import pywrap_tf_session as c_api
from tensorflow.python.framework import c_api_util, importer

from graph_opt.compat import tf

Dimensions = Optional[Tuple[Optional[int], ...]]


def inferred_shapes(graph_def: Any) -> Dict[str, List[Dimensions]]:
    """Shapes as `tf.import_graph_def` infers them.

    Args:
      graph_def: A GraphDef; not changed.

    Returns:
      For each node those of its outputs: None is an unknown rank or dimension.

    Raises:
      tf.errors.OpError: TensorFlow cannot import the graph.
    """
    graph = tf.Graph()
    options = c_api_util.ScopedTFImportGraphDefOptions()
    importer._PopulateTFImportGraphDefOptions(options.options, "", {}, None, False)
    with c_api_util.tf_buffer(graph_def.SerializeToString()) as serialized:
        with graph._c_graph.get() as c_graph:
            results = c_api.TF_GraphImportGraphDefWithResults(c_graph, serialized, options.options)
        c_api_util.ScopedTFImportGraphDefResults(results)  # Frees them.
    operations = (tf.Operation._from_c_op(c_op, graph) for c_op in graph.new_operations())
    return {one.name: [_dimensions(tensor) for tensor in one.outputs] for one in operations}


def _dimensions(tensor: Any) -> Dimensions:
    dimensions, is_unknown = tensor._shape
    return None if is_unknown else tuple(dimensions)
