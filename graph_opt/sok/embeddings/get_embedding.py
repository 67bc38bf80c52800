"""Layers by name, as `tf.get_variable` has variables."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from graph_opt.compat import tf
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.sharding.transport_in_use import transport_in_use


def get_embedding(
    name: str, constructor: Optional[Callable[..., Any]] = None, **arguments: Any
) -> Any:
    """The layer of this name in the current graph; makes it if there is none.

    Args:
      name: Name of the layer.
      constructor: Class of the layer, to make it.
      **arguments: Of the constructor.

    Raises:
      ValueError: There is no such layer, and no constructor.

    Example:
      >>> layer = sok.get_embedding("items", sok.DistributedEmbedding, **arguments)
      >>> assert sok.get_embedding("items") is layer
    """
    layers: Dict[Any, Any] = kept_with(tf.get_default_graph(), "embedding layers", dict)
    place = transport_in_use().rank, name
    if place not in layers:
        if constructor is None:
            raise ValueError(
                "there is no embedding layer {!r}: pass its constructor to make it".format(name)
            )
        layers[place] = constructor(**arguments)
    return layers[place]
