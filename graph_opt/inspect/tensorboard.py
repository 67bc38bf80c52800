"""Graphs for TensorBoard, with regions as colours.

TensorBoard colours a graph by device or by XLA cluster, which nodes name by an attribute. Here it
names the region, so that devices stay what they are: choose "Color by XLA cluster".
"""

from __future__ import annotations

import os
from typing import Any, Union

from graph_opt.compat import tf
from graph_opt.graph.shared_views import view_of
from graph_opt.inspect.dump import without_large_values
from graph_opt.passes.graph_reports import node_regions

_ATTRIBUTE = "_XlaCluster"


def write_for_tensorboard(graph_def: Any, folder: Union[str, os.PathLike[str]]) -> None:
    """Writes an event file with a graph; values of more than 1 MiB are left out.

    Args:
      graph_def: The graph; not changed.
      folder: The run's folder; is created.

    Raises:
      tf.errors.PermissionDeniedError: The folder cannot be written.

    Example:
      >>> write_for_tensorboard(graph_def, "logs/before")
    """
    regions = node_regions(view_of(graph_def))
    marked = without_large_values(graph_def)
    for node in marked.node:
        region = regions[node.name]
        if region != "none":
            node.attr[_ATTRIBUTE].s = region.encode("utf-8")
    event = tf.Event(graph_def=marked.SerializeToString())
    name = os.fspath(folder)
    try:
        with tf.Graph().as_default():  # A writer of event files cannot be made in eager mode.
            with tf.summary.FileWriter(name) as writer:
                writer.add_event(event)
    except tf.errors.OpError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, "{}: cannot be written: {}".format(name, error.message)
        ) from error
