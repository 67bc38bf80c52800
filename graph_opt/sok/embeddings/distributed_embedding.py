"""`DistributedEmbedding`: bags of keys, each of which is pooled to one row."""

from __future__ import annotations

from typing import Any, Dict, Optional

from graph_opt.compat import tf
from graph_opt.sok.embeddings.embedding_layer import EmbeddingLayer

_COMBINERS = ("sum", "mean")


class DistributedEmbedding(EmbeddingLayer):
    """Pools the rows of each slot of each sample. The slots share one table.

    Gradients of the table are summed over ranks: divide the loss by the global batch size.

    Args:
      combiner: `sum` or `mean`, in upper or lower case.
      max_vocabulary_size_per_gpu: Rows of the table on each rank; key k is on rank k % N.
      embedding_vec_size: Width of a row.
      slot_num: Bags of a sample.
      max_nnz: Most keys of a bag. Nothing is allocated for it, so that bags may have more.
      max_feature_num: Most keys of a sample, likewise.
      use_hashtable: Whether any key gets a row when it is first seen. Otherwise keys are the rows,
        from 0 to max_vocabulary_size_per_gpu * N - 1.
      key_dtype: int64, or uint32, for the files of `Saver`. Inputs may have any integer type.
      embedding_initializer: An initializer of Keras or its name; uniform from -0.05 to 0.05 by
        default.
      **layer_arguments: Of `tf.keras.layers.Layer`.

    Raises:
      ValueError: A size is not positive, or there is no such combiner or key_dtype.
      RuntimeError: Several ranks have not called `Init`.

    Example:
      >>> layer = sok.DistributedEmbedding("sum", 10000, 16, slot_num=26, max_nnz=4)
      >>> pooled = layer(keys)  # SparseTensor [batch * 26, 4] -> [batch, 26, 16]
    """

    def __init__(
        self,
        combiner: str,
        max_vocabulary_size_per_gpu: int,
        embedding_vec_size: int,
        slot_num: int,
        max_nnz: int,
        max_feature_num: int = 1,
        use_hashtable: bool = True,
        key_dtype: Any = None,
        embedding_initializer: Any = None,
        **layer_arguments: Any,
    ) -> None:
        super().__init__(
            dict(slot_num=slot_num, max_nnz=max_nnz, max_feature_num=max_feature_num),
            max_vocabulary_size_per_gpu,
            embedding_vec_size,
            use_hashtable,
            key_dtype,
            embedding_initializer,
            **layer_arguments,
        )
        self._combiner = str(combiner).lower()
        if self._combiner not in _COMBINERS:
            raise ValueError("combiner is {!r}; choose sum or mean".format(combiner))
        self._slots = slot_num

    def call(self, inputs: Any, training: Optional[Any] = True) -> tf.Tensor:
        """Looks up a batch.

        Args:
          inputs: SparseTensor or RaggedTensor [batch * slot_num, max_nnz]: slot s of sample b is
            row b * slot_num + s.
          training: Whether new keys get a row; others read zeros.

        Returns:
          [batch, slot_num, embedding_vec_size].

        Raises:
          TypeError: The inputs are dense.
          ValueError: The number of bags is not a multiple of `slot_num`.
        """
        return self._look_up(inputs, training)

    @tf.autograph.experimental.do_not_convert  # which would hide the signature of `call` from Keras
    def _look_up(self, inputs: Any, training: Optional[Any]) -> tf.Tensor:
        bags = _as_bags(inputs)
        count = bags.shape[0]
        count = getattr(count, "value", count)
        if count is not None and count % self._slots:
            raise ValueError(
                "layer {!r} got {} bags, which are no samples of {} slots each".format(
                    self.name, count, self._slots
                )
            )
        pooled = self.embedding_variable.pooled(bags, self._combiner, training)
        return self.as_output(pooled, [-1, self._slots, self.embedding_vec_size])

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`."""
        return dict(super().get_config(), combiner=self._combiner)


def _as_bags(inputs: Any) -> Any:
    if isinstance(inputs, tf.RaggedTensor):
        return inputs.with_flat_values(tf.cast(inputs.flat_values, tf.int64))
    if isinstance(inputs, (tf.SparseTensor, tf.SparseTensorValue)):
        bags = tf.convert_to_tensor_or_sparse_tensor(inputs)
        return tf.SparseTensor(bags.indices, tf.cast(bags.values, tf.int64), bags.dense_shape)
    raise TypeError(
        "DistributedEmbedding got a {}; need a SparseTensor".format(type(inputs).__name__)
    )
