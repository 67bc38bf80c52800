"""TensorFlow's and Keras' Adam with their sparse updates left to a subclass.

Relies on the methods by which `tf.train.Optimizer` and Keras' `OptimizerV2` hand over slices whose
rows may occur several times, and on where each keeps its coefficients.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.compat.keras_optimizers import legacy

__all__ = ["KerasSparseAdam", "SlicesUpdate", "TrainSparseAdam"]


class SlicesUpdate(NamedTuple):
    """An update of some rows of a table.

    Attributes:
      table: The variable.
      memory: Its resource handle, or its reference.
      slots: Those of m and v.
      coefficients: Learning rate, beta1, beta2, epsilon, and the powers of the betas.
      rows: [n], with duplicates.
      gradients: [n, D].
    """

    table: Any
    memory: tf.Tensor
    slots: Sequence[tf.Tensor]
    coefficients: Sequence[Any]
    rows: tf.Tensor
    gradients: tf.Tensor


class KerasSparseAdam(legacy.Adam):
    """Keras' Adam; `update_slices` does its sparse updates."""

    def update_slices(self, update: SlicesUpdate) -> Any:
        """Updates the rows, and returns the operation."""
        raise NotImplementedError

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Any, handle: Any, indices: Any, apply_state: Any = None
    ) -> Any:
        place = handle.device, handle.dtype.base_dtype
        known = (apply_state or {}).get(place) or self._fallback_apply_state(*place)
        names = ("lr_t", "beta_1_t", "beta_2_t", "epsilon", "beta_1_power", "beta_2_power")
        slots = [self.get_slot(handle, name) for name in ("m", "v")]
        return self.update_slices(
            SlicesUpdate(
                handle,
                handle.handle,
                [slot.handle for slot in slots],
                [known[name] for name in names],
                indices,
                grad,
            )
        )


class TrainSparseAdam(tf.train.AdamOptimizer):
    """`tf.train.AdamOptimizer`; `update_slices` does its sparse updates."""

    def update_slices(self, update: SlicesUpdate) -> Any:
        """Updates the rows, and returns the operation."""
        raise NotImplementedError

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._update(handle, indices, grad)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return self._update(var, grad.indices, grad.values)

    def _update(self, table: Any, rows: Any, gradients: Any) -> Any:
        beta1_power, beta2_power = self._get_beta_accumulators()
        slots = [self.get_slot(table, name) for name in ("m", "v")]
        return self.update_slices(
            SlicesUpdate(
                table,
                _memory(table),
                [_memory(slot) for slot in slots],
                [self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t]
                + [beta1_power, beta2_power],
                rows,
                gradients,
            )
        )


def _memory(variable: Any) -> tf.Tensor:
    handle = variable.handle
    return handle if handle.dtype == tf.resource else variable._ref()
