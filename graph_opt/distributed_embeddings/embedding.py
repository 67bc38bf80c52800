"""`Embedding` and `ConcatOneHotEmbedding`: layers with a table of this rank alone."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.layer_inputs import integers
from graph_opt.distributed_embeddings.local_lookup import (
    embedding_lookup,
    stock_embedding_lookup,
)
from graph_opt.ops.group_embedding import COMBINERS

# Of configs of `tf.keras.layers.Embedding`, which this layer is made from, too.
_ONLY_OF_KERAS = ("mask_zero", "input_length")


class Embedding(tf.keras.layers.Layer):
    """`tf.keras.layers.Embedding` that also combines the rows of a bag of ids.

    Args:
      input_dim: Number of rows; ids are 0 to input_dim - 1.
      output_dim: Width of a row.
      embeddings_initializer: Of the table.
      embeddings_regularizer: Of the table.
      activity_regularizer: Of the output.
      embeddings_constraint: Of the table.
      combiner: None for a row for each id; `sum`, `mean` or `sqrtn` for a row for each bag.
      use_custom_kernel: Whether one op of graph_opt reads and combines rows; otherwise TensorFlow's
        ops do.
      **layer_arguments: Of `tf.keras.layers.Layer`.

    Raises:
      ValueError: A size is not positive, or there is no such combiner.

    Example:
      >>> layer = Embedding(1000, 16, combiner="mean")
      >>> pooled = layer(tf.ragged.constant([[1, 2, 3], [4]]))  # [2, 16]
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        combiner: Optional[str] = None,
        use_custom_kernel: bool = True,
        **layer_arguments: Any,
    ) -> None:
        if "input_shape" not in layer_arguments and "batch_input_shape" not in layer_arguments:
            layer_arguments["input_shape"] = (None,)
        if layer_arguments.get("autocast") is None:
            layer_arguments["autocast"] = False  # ids must not become floats
        super().__init__(activity_regularizer=activity_regularizer, **layer_arguments)
        self.input_dim = _positive("input_dim", input_dim)
        self.output_dim = _positive("output_dim", output_dim)
        if combiner is not None and combiner not in COMBINERS:
            raise ValueError(
                "combiner is {!r}; choose None or one of {}".format(combiner, ", ".join(COMBINERS))
            )
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)
        self.embeddings_regularizer = tf.keras.regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = tf.keras.constraints.get(embeddings_constraint)
        self.combiner = combiner
        self.use_custom_kernel = bool(use_custom_kernel)

    def build(self, input_shape: Any) -> None:
        """See `tf.keras.layers.Layer`."""
        self.embeddings = self.add_weight(
            "embeddings",
            shape=(self.input_dim, self.output_dim),
            dtype=_dtype_of_rows(self),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
            experimental_autocast=False,
            use_resource=True,
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Looks up ids, which become int32 unless they are integers.

        Args:
          inputs: Dense ids [..., ids of a bag], or [b] without a combiner; or ragged or sparse ones
            [b, ids of a bag].

        Returns:
          With a combiner, inputs.shape[:-1] + [output_dim]; otherwise inputs.shape + [output_dim].

        Raises:
          ValueError: The rank of the ids does not fit.
        """
        ids = integers(inputs)
        found = self._rows(ids) if isinstance(ids, tf.Tensor) else self._found(ids)
        return _as_output(self, found)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """See `tf.keras.layers.Layer`."""
        shape = tf.TensorShape(input_shape).as_list()
        return tf.TensorShape((shape if self.combiner is None else shape[:-1]) + [self.output_dim])

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`."""
        return dict(
            super().get_config(),
            input_dim=self.input_dim,
            output_dim=self.output_dim,
            embeddings_initializer=tf.keras.initializers.serialize(self.embeddings_initializer),
            embeddings_regularizer=tf.keras.regularizers.serialize(self.embeddings_regularizer),
            activity_regularizer=tf.keras.regularizers.serialize(self.activity_regularizer),
            embeddings_constraint=tf.keras.constraints.serialize(self.embeddings_constraint),
            combiner=self.combiner,
            use_custom_kernel=self.use_custom_kernel,
        )

    @classmethod
    def from_config(cls, config: Dict[str, Any]) -> Embedding:
        """See `tf.keras.layers.Layer`; also takes configs of `tf.keras.layers.Embedding`."""
        return cls(**{name: one for name, one in config.items() if name not in _ONLY_OF_KERAS})

    def _rows(self, ids: tf.Tensor) -> tf.Tensor:
        if self.combiner is None:
            return self._found(ids)
        if ids.shape.rank is None or ids.shape.rank < 2:
            raise ValueError(
                "layer {!r} combines rows, and so needs ids of rank 2 or more, not of shape "
                "{}".format(self.name, ids.shape)
            )
        if ids.shape.rank == 2:
            return self._found(ids)
        shape = tf.concat([tf.shape(ids)[:-1], [self.output_dim]], axis=0)
        bags = tf.reshape(ids, tf.stack([-1, tf.shape(ids)[-1]]))
        combined = tf.reshape(self._found(bags), shape)
        combined.set_shape(ids.shape[:-1].concatenate(self.output_dim))
        return combined

    def _found(self, ids: Any) -> Any:
        if isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)) and ids.shape.rank not in (None, 2):
            raise ValueError(
                "layer {!r} takes ragged and sparse ids of rank 2, not of shape {}".format(
                    self.name, ids.shape
                )
            )
        look_up = embedding_lookup if self.use_custom_kernel else stock_embedding_lookup
        return look_up(self.embeddings, ids, self.combiner)


class ConcatOneHotEmbedding(tf.keras.layers.Layer):
    """The tables of several features with one id each, as a single table.

    Args:
      feature_sizes: Number of rows of each feature.
      embedding_width: Width of all rows.
      **layer_arguments: Of `tf.keras.layers.Layer`.

    Raises:
      ValueError: A size is not positive, or there is no feature.

    Example:
      >>> layer = ConcatOneHotEmbedding([1000, 50, 7], 16)
      >>> rows = layer(ids)  # [b, 3] -> [b, 3, 16]
    """

    def __init__(
        self, feature_sizes: Sequence[int], embedding_width: int, **layer_arguments: Any
    ) -> None:
        super().__init__(**dict(layer_arguments, autocast=False))
        self.feature_sizes = [_positive("a feature size", size) for size in feature_sizes]
        if not self.feature_sizes:
            raise ValueError("feature_sizes is empty; give the number of rows of each feature")
        self.embedding_width = _positive("embedding_width", embedding_width)

    def build(self, input_shape: Any) -> None:
        """See `tf.keras.layers.Layer`."""
        self.params = self.add_weight(
            "params",
            shape=(sum(self.feature_sizes), self.embedding_width),
            dtype=_dtype_of_rows(self),
            experimental_autocast=False,
            use_resource=True,
        )
        self.built = True

    def call(self, inputs: Any) -> tf.Tensor:
        """Looks up one id of each feature.

        Args:
          inputs: [b, F]. Column f has ids 0 to feature_sizes[f] - 1; another id is an
            `InvalidArgumentError`, never a row of the next feature.

        Returns:
          [b, F, embedding_width].

        Raises:
          ValueError: There is another number of columns.
        """
        ids = tf.cast(integers(tf.convert_to_tensor(inputs)), tf.int64)
        if not ids.shape.is_compatible_with([None, len(self.feature_sizes)]):
            raise ValueError(
                "layer {!r} has {} features; its input has shape {}".format(
                    self.name, len(self.feature_sizes), ids.shape
                )
            )
        sizes = np.array(self.feature_sizes, np.int64)
        first_rows = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        in_range = tf.reduce_all((ids >= 0) & (ids < sizes))
        what = "ids of layer {!r} must be below {}, one number a column:".format(
            self.name, self.feature_sizes
        )
        check = tf.debugging.Assert(in_range, [what, ids], summarize=16)
        with tf.control_dependencies([] if check is None else [check]):
            rows = tf.gather(self.params, ids + first_rows)
        return _as_output(self, rows)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """See `tf.keras.layers.Layer`."""
        return tf.TensorShape(tf.TensorShape(input_shape).as_list() + [self.embedding_width])

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`."""
        return dict(
            super().get_config(),
            feature_sizes=self.feature_sizes,
            embedding_width=self.embedding_width,
        )


def _positive(what: str, size: Any) -> int:
    if isinstance(size, bool) or int(size) != size or size < 1:
        raise ValueError("{} is {!r}; need a positive number".format(what, size))
    return int(size)


def _dtype_of_rows(layer: Any) -> tf.DType:
    """In TensorFlow 1's graphs, a layer without a policy gets the dtype of its input: of ids."""
    dtype = tf.as_dtype(layer.dtype or tf.keras.backend.floatx())
    return dtype if dtype.is_floating else tf.as_dtype(tf.keras.backend.floatx())


def _as_output(layer: Any, rows: Any) -> Any:
    """Rows in the dtype of the layer's output."""
    wanted = tf.as_dtype(getattr(layer, "compute_dtype", None) or rows.dtype)
    return tf.cast(rows, wanted) if wanted.is_floating and wanted != rows.dtype else rows
