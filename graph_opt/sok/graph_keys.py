"""Names of the collections in which a graph has the layers and optimizers of release 1."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.graph_collections import export_as_names


class GraphKeys:
    """Names of collections.

    Example:
      >>> layers = tf.get_collection(sok.GraphKeys.SparseOperationKitEmbeddingLayers)
    """

    SparseOperationKitEmbeddingLayers = "SparseOperationKitEmbeddingLayers"
    SparseOperationKitOptimizer = "SparseOperationKitOptimizer"


def remember(collection: str, member: Any) -> None:
    """Adds to a collection of the graph; eagerly there are none."""
    if not tf.executing_eagerly():
        tf.add_to_collection(collection, member)


export_as_names(GraphKeys.SparseOperationKitEmbeddingLayers)
export_as_names(GraphKeys.SparseOperationKitOptimizer)
