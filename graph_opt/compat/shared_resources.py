"""State that is no variable, and that sessions make when they start."""

from __future__ import annotations

from typing import Any

from tensorflow.python.ops import resources

from graph_opt.compat import tf
from graph_opt.compat.graph_collections import leave_out_of_exports

leave_out_of_exports(tf.GraphKeys.RESOURCES)
# Graphs that are imported would have nodes in their place, which a saver cannot save.
leave_out_of_exports(tf.GraphKeys.SAVEABLE_OBJECTS)


def register_resource(handle: Any, create: Any, is_initialized: Any) -> None:
    """Has monitored sessions make a resource, and wait for it where they are not the chief.

    Args:
      handle: Its tensor; errors have its name.
      create: The op that makes it.
      is_initialized: Bool tensor: whether it is there.
    """
    resources.register_resource(handle, create, is_initialized)
