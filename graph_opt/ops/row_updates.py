"""Updates of the rows that an IndexedSlices names, by an optimizer's fused op."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import (
    DENSE,
    NO_DEFAULT,
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
)


def update_rows(
    optimizer: str,
    table: tf.Tensor,
    slots: Sequence[tf.Tensor],
    hyperparameters: Sequence[Any],
    rows: tf.Tensor,
    gradients: tf.Tensor,
    name: str,
    flags: Optional[Sequence[str]] = None,
    use_locking: bool = False,
) -> tf.Operation:
    """Updates rows of one table; those of a row that occurs several times are summed first.

    Args:
      optimizer: Name of its spec (`graph_opt.ops.optimizers`). Of those that move every row, only
        the rows named here are moved.
      table: A resource handle or a reference, of a float32 matrix.
      slots: The optimizer's slots, likewise.
      hyperparameters: Scalars, in the order of the spec.
      rows: int32 or int64 [n].
      gradients: [n, D].
      name: Of the table, for errors.
      flags: The optimizer's flags that are set; None for the defaults of its spec.
      use_locking: Whether to lock the variables exclusively.

    Returns:
      The operation; None eagerly.

    Example:
      >>> update_rows("GradientDescent", table.handle, [], [0.1], rows, gradients, table.name)
    """
    nothing = tf.constant([], tf.int64)
    # Slices are the gradient of a lookup of their rows if that of its result is their values.
    attributes = GroupAttributes(
        lookup_tables=[0],
        table_shards=[1],
        table_names=[name],
        combiners=["sum"],
        layouts=[DENSE],
        weighted=[False],
        default_ids=[NO_DEFAULT],
        safe=False,
    )
    return group_embedding_apply(
        optimizer,
        [table],
        slots,
        [tf.cast(value, tf.float32) for value in hyperparameters],
        GroupIds([rows], [nothing], [nothing], []),
        attributes,
        [tf.cast(gradients, tf.float32)],
        flags=flags,
        use_locking=use_locking,
    )
