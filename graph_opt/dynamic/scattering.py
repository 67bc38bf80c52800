"""Writes to rows of dynamic tables by key, under the names that TensorFlow's variables have."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import beside
from graph_opt.dynamic.optimizers import update_by_key
from graph_opt.ops import dynamic_content


class ScatteredRows:
    """What a table's variable can do with IndexedSlices, whose indices are keys."""

    handle: Any
    described: str

    def scatter_add(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: Optional[str] = None
    ) -> Any:
        """Adds to rows. Keys without a row get one first, which begins as that of a lookup.

        Args:
          sparse_delta: Keys and what to add to the rows of each, all of it where a key is repeated.
          use_locking: Whether no update runs meanwhile.
          name: Not used.

        Returns:
          In graphs the op.

        Example:
          >>> table.scatter_add(tf.IndexedSlices(tf.ones([2, table.dim]), [7, 12]))
        """
        return self._added(sparse_delta, -1.0, use_locking)

    def scatter_sub(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: Optional[str] = None
    ) -> Any:
        """Subtracts from rows: see `scatter_add`."""
        return self._added(sparse_delta, 1.0, use_locking)

    def scatter_update(
        self, sparse_delta: tf.IndexedSlices, use_locking: bool = False, name: Optional[str] = None
    ) -> Any:
        """Writes rows of the keys that have one; the others are passed over.

        Args:
          sparse_delta: Keys and rows; the last counts where a key is repeated.
          use_locking: Not used.
          name: Name of the node.

        Returns:
          In graphs the op.
        """
        keys, rows = _keys_and_rows(sparse_delta)
        with beside(self):
            return dynamic_content.assign_rows(self.handle, keys, rows, insert=False, name=name)

    def _added(self, slices: tf.IndexedSlices, rate: float, use_locking: bool) -> Any:
        keys, rows = _keys_and_rows(slices)
        with beside(self):
            made = dynamic_content.import_rows(self.handle, keys)
        with tf.control_dependencies([] if made is None else [made]):
            return update_by_key(
                self, "GradientDescent", [], [rate], keys, rows, use_locking=use_locking
            )

    def _only_by_key(self, *arguments: Any, **named: Any) -> Any:
        """There is no such write to rows by key."""
        raise NotImplementedError(
            "{} can be written by scatter_add, scatter_sub and scatter_update, and by optimizers "
            "alone".format(self.described)
        )

    scatter_div = scatter_max = scatter_min = scatter_mul = _only_by_key
    batch_scatter_update = scatter_nd_add = scatter_nd_sub = scatter_nd_update = _only_by_key
    scatter_nd_max = scatter_nd_min = _only_by_key


def _keys_and_rows(slices: Any) -> Any:
    if not isinstance(slices, tf.IndexedSlices):
        raise TypeError("got a {}; need tf.IndexedSlices".format(type(slices).__name__))
    return tf.cast(slices.indices, tf.int64), tf.cast(slices.values, tf.float32)
