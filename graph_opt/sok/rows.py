"""Rows of tables and slots by key, on the rank that has them."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.sharding.keyed_rows import KeyedRows, keyed_rows


def assign(var: Any, indices: Any, values: Any, check_ownership: bool = True) -> Any:
    """Writes rows of this rank by key. Nothing is sent: each rank writes its own.

    Args:
      var: A `sok.Variable`, or a slot of one.
      indices: int32 or int64 [n]. Keys, each at most once.
      values: [n, D]. Their rows.
      check_ownership: Whether keys that another rank has are an error. If not, they are skipped,
        so that all ranks may give the same keys and rows.

    Returns:
      In graphs the op that writes.

    Raises:
      TypeError: `var` is not sharded across ranks.
      tf.errors.InvalidArgumentError: At run time, another rank has a key, or none can.

    Example:
      >>> sok.assign(table, [0, 2], [[1.0, 1.0], [3.0, 3.0]], check_ownership=False)
    """
    table = keyed_rows(var)
    with tf.name_scope("graph_opt/sok_assign/"):
        keys = tf.reshape(tf.cast(indices, tf.int64), [-1])
        rows = tf.reshape(tf.convert_to_tensor(values, table.dtype), [-1, table.width])
        same_length = tf.debugging.assert_equal(
            tf.size(keys),
            tf.shape(rows)[0],
            message="sok.assign needs one row for each key of {!r}".format(table.name),
        )
        with _after(same_length, _assert_owned(table, keys, check_ownership)):
            mine = tf.reshape(tf.where(tf.equal(table.owners(keys), table.rank)), [-1])
            return table.write(tf.gather(keys, mine), tf.gather(rows, mine))


def export(var: Any) -> Tuple[tf.Tensor, tf.Tensor]:
    """The keys and rows that this rank has. Nothing is sent.

    Args:
      var: A `sok.Variable`, or a slot of one.

    Returns:
      int64 keys [n], ascending, and their rows [n, D], on the CPU.

    Raises:
      TypeError: `var` is not sharded across ranks.

    Example:
      >>> keys, rows = sok.export(table)
    """
    table = keyed_rows(var)
    with tf.name_scope("graph_opt/sok_export/"), tf.device("/cpu:0"):
        return table.block(0, table.num_rows())


def _assert_owned(table: KeyedRows, keys: tf.Tensor, all_mine: bool) -> Optional[Any]:
    owners = table.owners(keys)
    allowed = tf.equal(owners, table.rank) if all_mine else owners >= 0
    wrong = tf.boolean_mask(keys, tf.logical_not(allowed))
    advice = (
        "which other ranks have, or none: each rank must give its own keys, or call it with "
        "check_ownership=False"
        if all_mine
        else "which the table does not have"
    )
    return tf.debugging.Assert(
        tf.reduce_all(allowed),
        [
            "sok.assign to {!r} on rank {} got keys {}:".format(table.name, table.rank, advice),
            wrong,
        ],
    )


def _after(*checks: Any) -> Any:
    """Eager checks have passed already."""
    return tf.control_dependencies([check for check in checks if check is not None])
