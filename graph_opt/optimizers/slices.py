"""Updates of the rows of variables and of dynamic tables."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.table_training import is_dynamic_table
from graph_opt.compat.train_optimizers import memory_of
from graph_opt.ops.row_formulas import update_rows_by_formula
from graph_opt.ops.row_updates import update_rows


def update_slices(
    optimizer: str,
    variable: Any,
    slots: Sequence[Any],
    hyperparameters: Sequence[Any],
    rows: tf.Tensor,
    gradients: tf.Tensor,
    use_locking: bool = False,
) -> Any:
    """Updates rows of a variable, each once, by the sum of its gradients.

    Args:
      optimizer: Name of its spec (`graph_opt.ops.optimizers`), one of `row_formulas.FORMULAS`.
      variable: A variable or dynamic table.
      slots: The optimizer's slots of it.
      hyperparameters: Scalars, in the order of the spec.
      rows: [n], with duplicates; of a dynamic table keys.
      gradients: [n, ...].
      use_locking: Whether to lock the variables.

    Returns:
      The operation.
    """
    if is_dynamic_table(variable):
        return variable.update_rows(
            optimizer, slots, hyperparameters, rows, gradients, use_locking=use_locking
        )
    if _is_matrix_of_floats(variable):
        return update_rows(
            optimizer,
            memory_of(variable),
            [memory_of(slot) for slot in slots],
            list(hyperparameters),
            rows,
            gradients,
            variable.name,
            use_locking=use_locking,
        )
    values = [tf.cast(value, variable.dtype.base_dtype) for value in hyperparameters]
    return update_rows_by_formula(optimizer, [variable, *slots], values, rows, gradients)


def batch_has_rows(rows: tf.Tensor, variable: Any) -> tf.Tensor:
    """Whether there are any rows, told from as early a tensor as has the answer.

    An update that is fused with its lookup computes no rows of gradients, and the nodes that a
    fused lookup replaces must have no reader; the shape of a batch is there anyway.

    Args:
      rows: [n]. The rows that have a gradient; of a dynamic table keys.
      variable: The variable or dynamic table.
    """
    if is_dynamic_table(variable) and variable.num_parts > 1:
        return variable.has_any(rows if tf.executing_eagerly() else _source(rows, _PARTS))
    if tf.executing_eagerly():
        return tf.size(rows) > 0
    ids = _source(rows)
    bags = _bags(ids)
    return (tf.size(ids) if bags is None else bags) > 0


# Ops that give no rows exactly if they are given none: which output has them, and which input.
_PASS_ON = {
    **dict.fromkeys(("Unique", "UniqueV2", "UniqueWithCounts"), (0, 0)),
    **dict.fromkeys(("Reshape", "Identity", "Cast"), (0, 0)),
    "SparseSegmentSumGradV2": (1, 1),
    "SparseSegmentMeanGradV2": (1, 1),
    "SparseSegmentSqrtNGradV2": (1, 1),
}
# Where any of the parts' keys will do.
_PARTS = ("DynamicPartition",)


def _source(rows: tf.Tensor, also: Sequence[str] = ()) -> tf.Tensor:
    """The earliest tensor that is empty exactly if `rows` are, or has the keys of all parts."""
    while True:
        output, source = _PASS_ON.get(rows.op.type, (None, 0))
        if output != rows.value_index and rows.op.type not in also:
            return rows
        rows = rows.op.inputs[source]


def _bags(ids: tf.Tensor) -> Optional[tf.Tensor]:
    """The number of bags where each of them was given an id, so that there are ids if it is not 0.

    `tf.nn.safe_embedding_lookup_sparse` makes a matrix of the ids of any tensor. Its rows are
    counted before that, since the shape is there without the ids.
    """
    if ids.op.type != "SparseFillEmptyRows" or ids.value_index != 1:
        return None
    shape = ids.op.inputs[2]
    while shape.op.type == "Identity":
        shape = shape.op.inputs[0]
    if shape.op.type == "SparseReshape" and shape.op.inputs[2].op.type == "Pack":
        bags = shape.op.inputs[2].op.inputs[0]
        if tf.get_static_value(bags) is None:  # A constant may be -1, for what remains.
            return bags
    return shape[0]


def _is_matrix_of_floats(variable: Any) -> bool:
    return variable.dtype.base_dtype == tf.float32 and variable.shape.rank == 2
