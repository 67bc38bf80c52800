"""The graphs of a release as messages."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.inferred_shapes import inferred_shapes
from tests.releases.archives import graph_bytes


def read_graph(release: str, name: str) -> Any:
    """A GraphDef as this release wrote it, without shapes."""
    return tf.GraphDef.FromString(graph_bytes(release, name))


def can_be_imported(graph_def: Any) -> bool:
    """Whether TensorFlow's importer takes a graph: this release has all its ops and attributes."""
    try:
        inferred_shapes(graph_def, frozenset())
    except (ValueError, tf.errors.OpError):
        return False
    return True
