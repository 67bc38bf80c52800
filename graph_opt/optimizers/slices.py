"""Updates of the rows of variables and of dynamic tables."""

from __future__ import annotations

from typing import Any, Sequence

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

    An update that is fused with its lookup computes no rows of gradients, and lookups whose keys
    something else reads are not fused; the ids of a batch are there anyway.

    Args:
      rows: [n]. The rows that have a gradient; of a dynamic table keys.
      variable: The variable or dynamic table.
    """
    passing = _PASS_ON
    if hasattr(variable, "has_any"):
        passing = passing | {"DynamicPartition"}
    while not tf.executing_eagerly() and rows.op.type in passing:
        rows = rows.op.inputs[0]
    return variable.has_any(rows) if hasattr(variable, "has_any") else tf.size(rows) > 0


# What gives no rows exactly if it is given none.
_PASS_ON = frozenset(["Unique", "UniqueV2", "UniqueWithCounts", "Reshape", "Identity", "Cast"])


def _is_matrix_of_floats(variable: Any) -> bool:
    return variable.dtype.base_dtype == tf.float32 and variable.shape.rank == 2
