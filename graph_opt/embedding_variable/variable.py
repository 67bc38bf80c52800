"""DeepRec's EmbeddingVariable: a dynamic table, in one part or several."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.embedding.lookup_ids import ID_DTYPES

# Ids of strings are hashes below this, as in DeepRec's columns.
HASH_BUCKETS = 2**63 - 1


class _EmbeddingVariable:
    """What scripts call on EmbeddingVariables besides what every dynamic table has.

    Attributes:
      parts: The variables that have the rows.
      group_lasso: That `tf.train.FtrlOptimizer` bounds the norms of rows, rather than each column.
    """

    parts: Any
    group_lasso = True

    @property
    def shape(self) -> tf.TensorShape:
        """That of one row, [dim]."""
        return tf.TensorShape([self.parts[0].dim])

    def total_count(self) -> tf.Tensor:
        """Number of rows, and their width: int64 [2]. `get_dynamic_shape` in newer scripts."""
        return self.get_dynamic_shape()

    def get_dynamic_shape(self, name: Optional[str] = None) -> tf.Tensor:
        """Number of rows, and their width: int64 [2]."""
        shape: tf.Tensor = self.total_shape(name)  # type: ignore[attr-defined]
        return shape

    def get_frequency(self, ids: Any) -> tf.Tensor:
        """How often each id was looked up: int64, in the shape of `ids`."""
        return self.frequency(ids)  # type: ignore[attr-defined]

    def get_version(self, ids: Any) -> tf.Tensor:
        """The step of the last update of each id's row, -1 for none: int64, as `ids`."""
        return self.version(ids)  # type: ignore[attr-defined]


class EmbeddingVariable(_EmbeddingVariable, DynamicTableVariable):
    """A table of a row for each id that came; `tf.get_embedding_variable` makes it.

    Besides what `DynamicTableVariable` can do, ids may be strings where `key_dtype` was tf.string:
    their hash is the key.

    Args:
      **arguments: Of `DynamicTableVariable`.
      of_strings: Whether ids are strings.
    """

    def __init__(self, of_strings: bool = False, **arguments: Any) -> None:
        self._of_strings = of_strings
        super().__init__(**arguments)

    def as_keys(self, ids: Any) -> tf.Tensor:
        """See `DynamicTableVariable`."""
        if not self._of_strings:
            return super().as_keys(ids)
        ids = tf.convert_to_tensor(ids)
        if ids.dtype in ID_DTYPES:  # which have been hashed
            return ids
        return tf.strings.to_hash_bucket_fast(ids, HASH_BUCKETS)


class PartitionedEmbeddingVariable(_EmbeddingVariable, PartitionedDynamicTable):
    """An EmbeddingVariable in parts, `<name>/part_0` and so on, which is looked up as one."""
