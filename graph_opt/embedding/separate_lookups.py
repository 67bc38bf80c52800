"""Lookups that no group can do, one by one as TensorFlow does them."""

from __future__ import annotations

from typing import Any, List, Optional, Set

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import LookupIds
from graph_opt.ops.group_embedding import DENSE, RAGGED

_LOCAL_JOB = "localhost"


def is_elsewhere(table_devices: Set[str], ids_device: str) -> bool:
    """Whether a table is on another task than its ids, or on several devices.

    A group would have to send every lookup's ids and results on their own. Lookups by TensorFlow
    are what `do_group_embedding` packs into one transfer for each parameter server.

    Args:
      table_devices: Device strings of the table's parts.
      ids_device: That of the ids.

    Example:
      >>> is_elsewhere({"/job:ps/task:0"}, "/job:worker/task:0")
      True
    """
    if len(table_devices) > 1:
        return True
    table = _spec(next(iter(table_devices)))
    if table.job in (None, _LOCAL_JOB):
        return False
    ids = _spec(ids_device)
    return (table.job, table.replica or 0, table.task or 0) != (
        ids.job,
        ids.replica or 0,
        ids.task or 0,
    )


def lookup_separately(
    parts: List[Any],
    ids: LookupIds,
    combiner: str,
    default_id: Optional[int],
    partition_strategy: str,
) -> tf.Tensor:
    """`tf.nn.safe_embedding_lookup_sparse` for ids and weights of any kind.

    Args:
      parts: Of the table.
      ids: Ids and weights.
      combiner: `sum`, `mean` or `sqrtn`.
      default_id: The row that a row without ids gives; None is zeros.
      partition_strategy: `mod` or `div`.
    """
    weights = None if ids.weights is None else _sparse(ids, ids.weights)
    return tf.nn.safe_embedding_lookup_sparse(
        parts,
        _sparse(ids, ids.ids),
        weights,
        combiner=combiner,
        default_id=default_id,
        partition_strategy=partition_strategy,
    )


def _sparse(ids: LookupIds, values: tf.Tensor) -> tf.SparseTensor:
    if ids.layout == RAGGED:
        return tf.RaggedTensor.from_row_splits(values, ids.positions, validate=False).to_sparse()
    if ids.layout != DENSE:
        return tf.SparseTensor(ids.positions, values, ids.shape)
    matrix = values if values.shape.ndims == 2 else tf.expand_dims(values, 1)
    shape = tf.shape(matrix, out_type=tf.int64)
    everywhere = tf.where(tf.ones_like(matrix, tf.bool))
    return tf.SparseTensor(everywhere, tf.reshape(matrix, [-1]), shape)


def _spec(device: str) -> Any:
    return tf.DeviceSpec.from_string(device) if device else tf.DeviceSpec()
