"""Adam that moves only the rows that a batch looked up, as one op."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.sparse_adam import KerasSparseAdam, SlicesUpdate
from graph_opt.ops.row_updates import update_rows
from graph_opt.sok.graph_keys import GraphKeys, remember


class Adam(KerasSparseAdam):
    """Keras' Adam, except that rows without a gradient stay as they are, moments included.

    Args:
      learning_rate: See `tf.keras.optimizers.legacy.Adam`, as for all others.
      beta_1: Decay of the first moment.
      beta_2: Decay of the second moment.
      epsilon: Added to the root of the second moment.
      name: Of the optimizer.
      **arguments: `clipnorm` and the like.

    Example:
      >>> tables, others = sok.split_embedding_variable_from_others(model.trainable_variables)
      >>> sok.optimizers.Adam(0.001).apply_gradients(zip(tape.gradient(loss, tables), tables))
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "plugin_adam",
        **arguments: Any,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name=name, **arguments)
        remember(GraphKeys.SparseOperationKitOptimizer, self)

    @property
    def initializer(self) -> Any:
        """Initializes the slots of all tables whose gradients were applied; None eagerly."""
        if tf.executing_eagerly():
            return None
        return tf.group(*[one.initializer for one in self.variables()])

    def update_slices(self, update: SlicesUpdate) -> Any:
        """See `KerasSparseAdam`."""
        return adam_on_rows(update, self.iterations)


def adam_on_rows(update: SlicesUpdate, step: Any = None) -> Any:
    """Moves the rows of an update.

    Args:
      update: The update.
      step: The variable that counts steps; None for the graph's global step.

    Raises:
      TypeError: The table is not of float32.
    """
    table = update.table
    if table.dtype.base_dtype != tf.float32:
        raise TypeError(
            "table {!r} has dtype {}; this optimizer updates rows of float32".format(
                table.name, table.dtype.base_dtype.name
            )
        )
    if hasattr(table, "update_rows"):  # a dynamic table
        return table.update_rows(
            *("Adam", update.slots, update.coefficients, update.rows, update.gradients), step=step
        )
    return update_rows(
        "Adam",
        update.memory,
        update.slots,
        update.coefficients,
        update.rows,
        update.gradients,
        table.name,
    )
