"""SavedModels as messages, which TensorFlow does not name in its public API."""

from __future__ import annotations

from typing import Any, Iterable, List

from tensorflow.core.framework.variable_pb2 import VariableDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.saved_model import loader_impl

from graph_opt.compat import tf

__all__ = ["SavedModel", "nodes_of_variable", "parse_saved_model"]


def parse_saved_model(folder: str) -> SavedModel:
    """Reads the message in the folder of a SavedModel.

    Raises:
      tf.errors.InvalidArgumentError: It has none, or none that can be read.
    """
    try:
        return loader_impl.parse_saved_model(folder)
    except (OSError, tf.errors.OpError) as error:
        raise tf.errors.InvalidArgumentError(
            None, None, "{}: {}".format(folder, str(error).split("\n", 1)[0])
        ) from error


def nodes_of_variable(messages: Iterable[bytes]) -> List[List[str]]:
    """The tensors that belong to each variable of a collection: first itself, then the others.

    Args:
      messages: `CollectionDef.bytes_list.value` of a collection of variables.
    """
    variables: List[Any] = [VariableDef.FromString(message) for message in messages]
    return [
        [one.variable_name, one.initializer_name, one.initial_value_name, one.snapshot_name]
        for one in variables
    ]
