"""`IntegerLookup`: numbers keys in the order in which they are first seen."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.eager import handle_of, owner_of_resource
from graph_opt.compat.resource_variables import ResourceVariable
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.integer_lookup import integer_lookup, key_index
from graph_opt.sharding.own_rows import note_layer_use

# What `get_vocabulary` has in place of the key of number 0.
_NO_KEY = -1


class IntegerLookup(tf.keras.layers.Layer):
    """Numbers integer keys 1, 2, ... in the order in which they are first seen.

    Every int64 is a key. Several threads may call the layer. The vocabulary is one variable, which
    is saved and restored with the others. Each rank has a vocabulary of its own: where several
    ranks look up one sharded table by these numbers, keys must have the same numbers on all, so
    fill the vocabulary first, and let all ranks read it (`add=False`).

    Args:
      max_tokens: Most keys, without the number 0: an int or a scalar tensor.
      use_gpu: Accepted and not needed.
      **layer_arguments: Of `tf.keras.layers.Layer`.

    Raises:
      ValueError: `max_tokens` is not positive.

    Example:
      >>> numbered = IntegerLookup(max_tokens=1000)
      >>> rows = Embedding(1001, 16)(numbered(keys))
    """

    def __init__(self, max_tokens: Any, use_gpu: bool = True, **layer_arguments: Any) -> None:
        super().__init__(**dict(layer_arguments, autocast=False))
        known = tf.get_static_value(max_tokens) if tf.is_tensor(max_tokens) else max_tokens
        if known is not None and (isinstance(known, bool) or int(known) != known or known < 1):
            raise ValueError("max_tokens is {!r}; need a positive number".format(known))
        self.max_tokens: Any = max_tokens if known is None else int(known)
        self.use_gpu = use_gpu
        size = None if known is None else 1 + int(known)
        self.vocabulary = ResourceVariable(
            initial_value=lambda: tf.zeros([1 + tf.cast(max_tokens, tf.int64)], tf.int64),
            trainable=False,
            dtype=tf.int64,
            validate_shape=size is not None,
            shape=[size],
            name=self.name + "/vocabulary",
        )
        with tf.init_scope():
            self._index = key_index(self.vocabulary.name.split(":")[0])
        self._index_owner = owner_of_resource(self._index)

    def call(self, inputs: Any, add: Any = True) -> Any:
        """Numbers a batch.

        Args:
          inputs: Integers of any shape; dense, ragged or sparse.
          add: Whether keys without a number get the next one, while there are any: a bool, or a
            tensor.

        Returns:
          int64, of the same shape and kind: 0 for keys without a number.

        Raises:
          TypeError: The inputs are no integers.
        """
        if isinstance(inputs, (tf.SparseTensor, tf.SparseTensorValue)):
            keys = tf.convert_to_tensor_or_sparse_tensor(inputs)
            return tf.SparseTensor(keys.indices, self._numbers(keys.values, add), keys.dense_shape)
        if isinstance(inputs, tf.RaggedTensor):
            return inputs.with_flat_values(self._numbers(inputs.flat_values, add))
        return self._numbers(tf.convert_to_tensor(inputs), add)

    def get_vocabulary(self, session: Optional[Any] = None) -> List[int]:
        """The keys by their numbers: -1 for number 0, then the first key that was seen, and so on.

        Args:
          session: Of the layer's graph; the default session if there is none given.

        Raises:
          RuntimeError: The layer is one of a graph, and there is no session.
        """
        if tf.executing_eagerly():
            numbers = self.vocabulary.numpy()
        else:
            session = session or tf.get_default_session()
            if session is None:
                raise RuntimeError("get_vocabulary of a layer in a graph needs session=")
            numbers = session.run(self.vocabulary)
        return [_NO_KEY, *np.asarray(numbers)[1 : 1 + numbers[0]].tolist()]

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """See `tf.keras.layers.Layer`."""
        return tf.TensorShape(input_shape)

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`.

        Raises:
          ValueError: `max_tokens` is a tensor without a known value.
        """
        if tf.is_tensor(self.max_tokens):
            raise ValueError(
                "layer {!r} has no config, as its max_tokens is a tensor".format(self.name)
            )
        return dict(super().get_config(), max_tokens=self.max_tokens, use_gpu=self.use_gpu)

    @tf.autograph.experimental.do_not_convert
    def _numbers(self, keys: tf.Tensor, add: Any) -> tf.Tensor:
        if not keys.dtype.is_integer:
            raise TypeError(
                "layer {!r} numbers integers, not {}".format(self.name, keys.dtype.name)
            )
        note_layer_use()
        if not tf.executing_eagerly():
            export_users_graph(tf.get_default_graph())
        handle = handle_of(self.vocabulary)
        return integer_lookup(handle, self._index, tf.cast(keys, tf.int64), add)
