"""Layers by name, as `tf.get_variable` has variables."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, MutableMapping, Optional

from graph_opt.compat import tf
from graph_opt.sok.communication import transport_in_use

_layers: MutableMapping[Any, Dict[Any, Any]] = weakref.WeakKeyDictionary()


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
      >>> layer = sok.get_embedding("items", sok.DistributedEmbedding, combiner="sum", ...)
      >>> assert sok.get_embedding("items") is layer
    """
    layers = _layers.setdefault(tf.get_default_graph(), {})
    place = transport_in_use().rank, name
    if place not in layers:
        if constructor is None:
            raise ValueError(
                "there is no embedding layer {!r}: pass its constructor to make it".format(name)
            )
        layers[place] = constructor(**arguments)
    return layers[place]
