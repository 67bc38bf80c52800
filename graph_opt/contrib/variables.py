"""How layers make their variables, and where they put these and their results."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence, Union

from graph_opt.compat import tf

Collections = Union[None, Sequence[str], Mapping[str, Sequence[str]]]


def layer_variable(
    name: str,
    shape: Optional[Sequence[Any]],
    dtype: Any,
    initializer: Any,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Collections = None,
) -> Any:
    """A variable of a layer; also one of the collection `tf.GraphKeys.MODEL_VARIABLES`.

    Args:
      name: Within the layer's scope.
      shape: As for `tf.get_variable`, as for the next four.
      dtype: As there.
      initializer: As there.
      regularizer: As there.
      trainable: As there.
      collections: Further ones, or from the variable's name to further ones.
    """
    more = collections.get(name) if isinstance(collections, Mapping) else collections
    keys = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES, *(more or [])]
    return tf.get_variable(
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        trainable,
        collections=list(dict.fromkeys(keys)),
    )


def result(
    outputs: Any,
    activation_fn: Optional[Callable[[Any], Any]],
    outputs_collections: Union[str, Sequence[str], None],
) -> Any:
    """Results of a layer after its activation, which are put into collections.

    Args:
      outputs: The results.
      activation_fn: None for none.
      outputs_collections: Names of collections.
    """
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    names = [outputs_collections] if isinstance(outputs_collections, str) else outputs_collections
    for name in names or []:
        tf.add_to_collection(name, outputs)
    return outputs
