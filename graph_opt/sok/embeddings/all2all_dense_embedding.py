"""`All2AllDenseEmbedding`: one row for each key."""

from __future__ import annotations

from typing import Any, Dict, Optional

from graph_opt.compat import tf
from graph_opt.sok.embeddings.embedding_layer import EmbeddingLayer


class All2AllDenseEmbedding(EmbeddingLayer):
    """Looks up the row of every key. The slots share one table.

    Gradients of the table are summed over ranks: divide the loss by the global batch size.

    Args:
      max_vocabulary_size_per_gpu: Rows of the table on each rank; key k is on rank k % N.
      embedding_vec_size: Width of a row.
      slot_num: Slots of a sample.
      nnz_per_slot: Keys of a slot.
      dynamic_input: Whether inputs are vectors of any number of keys.
      use_hashtable: As in `DistributedEmbedding`, as are all that follow.
      key_dtype: int64 or uint32.
      embedding_initializer: Uniform from -0.05 to 0.05 by default.
      **layer_arguments: Of `tf.keras.layers.Layer`.

    Raises:
      ValueError: A size is not positive, or there is no such key_dtype.
      RuntimeError: Several ranks have not called `Init`.

    Example:
      >>> layer = sok.All2AllDenseEmbedding(10000, 16, slot_num=26, nnz_per_slot=4)
      >>> rows = layer(keys)  # [batch, 26, 4] -> [batch, 26, 4, 16]
    """

    def __init__(
        self,
        max_vocabulary_size_per_gpu: int,
        embedding_vec_size: int,
        slot_num: int,
        nnz_per_slot: int,
        dynamic_input: bool = False,
        use_hashtable: bool = True,
        key_dtype: Any = None,
        embedding_initializer: Any = None,
        **layer_arguments: Any,
    ) -> None:
        super().__init__(
            dict(slot_num=slot_num, nnz_per_slot=nnz_per_slot),
            max_vocabulary_size_per_gpu,
            embedding_vec_size,
            use_hashtable,
            key_dtype,
            embedding_initializer,
            **layer_arguments,
        )
        self._row_shape = [embedding_vec_size]
        if not dynamic_input:
            self._row_shape = [slot_num, nnz_per_slot, embedding_vec_size]
        self._dynamic_input = bool(dynamic_input)

    def call(self, inputs: Any, training: Optional[Any] = True) -> tf.Tensor:
        """Looks up a batch.

        Args:
          inputs: Integers [batch, slot_num, nnz_per_slot]; [K] with `dynamic_input`.
          training: Whether new keys get a row; others read zeros.

        Returns:
          The shape of the inputs, with `embedding_vec_size` at its end.

        Raises:
          ValueError: The inputs have another shape.
        """
        return self._look_up(inputs, training)

    @tf.autograph.experimental.do_not_convert  # which would hide the signature of `call` from Keras
    def _look_up(self, inputs: Any, training: Optional[Any]) -> tf.Tensor:
        keys = tf.cast(tf.convert_to_tensor(inputs), tf.int64)
        wanted = [None] if self._dynamic_input else [None, *self._row_shape[:2]]
        if not keys.shape.is_compatible_with(wanted):
            raise ValueError(
                "layer {!r} got keys of shape {}; need {}".format(
                    self.name, keys.shape, tf.TensorShape(wanted)
                )
            )
        rows = self.embedding_variable.rows_of(tf.reshape(keys, [-1]), training)
        return self.as_output(rows, [-1, *self._row_shape])

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`."""
        return dict(super().get_config(), dynamic_input=self._dynamic_input)
