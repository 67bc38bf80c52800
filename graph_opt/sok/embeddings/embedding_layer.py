"""What the layers of SparseOperationKit 1 have in common: one table, shared by their slots."""

from __future__ import annotations

from typing import Any, Dict, Optional, Union

from graph_opt.compat import tf
from graph_opt.sok.embeddings.embedding_variable import EmbeddingVariable, embedding_variable
from graph_opt.sok.embeddings.hashed_variable import HashedVariable
from graph_opt.sok.graph_keys import GraphKeys, remember

_KEY_DTYPES = ("int64", "uint32")


class EmbeddingLayer(tf.keras.layers.Layer):
    """A Keras layer with a table that is sharded across ranks; sizes are checked here.

    Args:
      sizes: The layer's own sizes, by the names of its arguments.
      max_vocabulary_size_per_gpu: Rows on each rank.
      embedding_vec_size: Width of a row.
      use_hashtable: Whether keys get rows when they are first seen.
      key_dtype: int64 or uint32.
      embedding_initializer: Of the rows.
      **layer_arguments: Of `tf.keras.layers.Layer`.
    """

    def __init__(
        self,
        sizes: Dict[str, int],
        max_vocabulary_size_per_gpu: int,
        embedding_vec_size: int,
        use_hashtable: bool,
        key_dtype: Any,
        embedding_initializer: Any,
        **layer_arguments: Any,
    ) -> None:
        super().__init__(**layer_arguments)
        self._sizes = dict(
            sizes,
            max_vocabulary_size_per_gpu=max_vocabulary_size_per_gpu,
            embedding_vec_size=embedding_vec_size,
        )
        for name, size in self._sizes.items():
            if isinstance(size, bool) or int(size) != size or size < 1:
                raise ValueError("{} is {!r}; need a positive number".format(name, size))
        self._key_dtype = _checked_key_dtype(key_dtype)
        self._use_hashtable = bool(use_hashtable)
        self._initializer = _initializer(embedding_initializer)
        self._table = embedding_variable(
            max_vocabulary_size_per_gpu,
            embedding_vec_size,
            self._use_hashtable,
            self._initializer,
            self._key_dtype,
            trainable=self.trainable,
        )
        remember(GraphKeys.SparseOperationKitEmbeddingLayers, self)

    @property
    def embedding_variable(self) -> Union[EmbeddingVariable, HashedVariable]:
        """The table: this rank's part of it."""
        return self._table

    @property
    def embedding_vec_size(self) -> int:
        """Width of a row."""
        return self._sizes["embedding_vec_size"]

    @property
    def max_vocabulary_size_per_gpu(self) -> int:
        """Rows on each rank."""
        return self._sizes["max_vocabulary_size_per_gpu"]

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`."""
        initializer = self._initializer
        return dict(
            super().get_config(),
            use_hashtable=self._use_hashtable,
            key_dtype=self._key_dtype,
            embedding_initializer=(
                None if initializer is None else tf.keras.initializers.serialize(initializer)
            ),
            **self._sizes,
        )

    def as_output(self, rows: tf.Tensor, shape: Any) -> tf.Tensor:
        """Rows in the shape and dtype of the layer's output."""
        # In TensorFlow 1's graphs a layer without a policy computes in the dtype of its input.
        wanted = tf.as_dtype(getattr(self, "compute_dtype", None) or rows.dtype)
        shaped = tf.reshape(rows, shape)
        return tf.cast(shaped, wanted) if wanted.is_floating else shaped


def _initializer(given: Any) -> Any:
    return None if given is None else tf.keras.initializers.get(given)


def _checked_key_dtype(key_dtype: Optional[Any]) -> str:
    name: str = tf.as_dtype(key_dtype or tf.int64).name
    if name not in _KEY_DTYPES:
        raise ValueError("key_dtype is {}; choose one of {}".format(name, ", ".join(_KEY_DTYPES)))
    return name
