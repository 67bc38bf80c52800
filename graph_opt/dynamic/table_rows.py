"""Rows of dynamic tables, as these hand them out."""

from __future__ import annotations

from typing import NamedTuple

from graph_opt.compat import tf


class TableRows(NamedTuple):
    """All rows of a table, or of a slot.

    Attributes:
      keys: int64 [n].
      values: float32 [n, D].
      versions: int64 [n]. The step of each row's last update; -1 for none.
      freqs: int64 [n]. How often each key was looked up.
    """

    keys: tf.Tensor
    values: tf.Tensor
    versions: tf.Tensor
    freqs: tf.Tensor


class EvictedRows(NamedTuple):
    """What a table has given up.

    Attributes:
      keys: int64 [n].
      values: float32 [n, D].
    """

    keys: tf.Tensor
    values: tf.Tensor
