"""DeepRec's `DataFrame`: columns of tables in files, and what a batch has of a column of lists."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf


class DataFrameValue(NamedTuple):
    """A batch of a column of lists.

    Attributes:
      values: The members of all lists, one after the other, [N].
      nested_row_splits: Where lists begin and end, int32, from the outermost; one tensor for each
        level of lists.
    """

    values: Any
    nested_row_splits: Tuple[Any, ...]

    def to_sparse(self, name: Optional[str] = None) -> tf.SparseTensor:
        """The lists as a SparseTensor, [B, longest] for lists of one level."""
        with tf.name_scope(name, "to_sparse"):
            splits = [tf.cast(one, tf.int64) for one in self.nested_row_splits]
            return tf.RaggedTensor.from_nested_row_splits(
                self.values, splits, validate=False
            ).to_sparse()


class DataFrame:
    """Names of DeepRec's `tensorflow.python.data.experimental.ops.dataframe`.

    Example:
      >>> fields = [DataFrame.Field("user", tf.int64, 0), DataFrame.Field("tags", tf.string, 1)]
      >>> dataset = graph_opt.ParquetDataset("day_0.parquet", 512, fields)
      >>> dataset = dataset.map(DataFrame.to_sparse)
    """

    Value = DataFrameValue

    class Field:
        """A column.

        Args:
          name: Of the column.
          dtype: Of values, or of the members of lists; None to read it from the file.
          ragged_rank: Levels of lists; None to read it from the file.
          shape: Of each row, if the lists of a column all have the same length.

        Example:
          >>> fields = [DataFrame.Field("user", tf.int64, 0), DataFrame.Field("tags", tf.string, 1)]
        """

        def __init__(
            self,
            name: str,
            dtype: Any = None,
            ragged_rank: Optional[int] = None,
            shape: Optional[Sequence[int]] = None,
        ) -> None:
            self.name = name
            self.dtype = None if dtype is None else tf.as_dtype(dtype)
            self.ragged_rank = ragged_rank
            self.shape = None if shape is None else tuple(shape)

        @property
        def incomplete(self) -> bool:
            """Whether the type or the levels of lists are still to be read from a file."""
            return self.dtype is None or self.ragged_rank is None

        def __repr__(self) -> str:
            return "DataFrame.Field({!r}, {}, {})".format(
                self.name, self.dtype and self.dtype.name, self.ragged_rank
            )

    @staticmethod
    def to_sparse(features: Any) -> Any:
        """Makes SparseTensors of all lists among features, which may be nested."""
        if isinstance(features, DataFrameValue):
            return features.to_sparse()
        if isinstance(features, dict):
            return {name: DataFrame.to_sparse(one) for name, one in features.items()}
        if isinstance(features, (list, tuple)):
            made: List[Any] = [DataFrame.to_sparse(one) for one in features]
            return tuple(made) if isinstance(features, tuple) else made
        return features
