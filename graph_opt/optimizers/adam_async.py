"""Adam for asynchronous workers: each variable counts its own steps, and only touched rows move."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.train_optimizers import RowOptimizer, memory_of
from graph_opt.optimizers.slices import batch_has_rows, update_slices


class _Updated(NamedTuple):
    """A variable in a step: powers before it, and whether it was updated at all; None: it was."""

    variable: Any
    powers: Sequence[tf.Tensor]
    has_rows: Optional[tf.Tensor]


class AdamAsyncOptimizer(RowOptimizer):
    """DeepRec's AdamAsync.

    Each variable has slots m and v, and powers of both betas of its own, which advance with each
    update of it. Sparse updates move only the rows that have a gradient, moments included.

    Args:
      learning_rate: A number, tensor or function, as beta1, beta2 and epsilon.
      beta1: Decay of the first moment.
      beta2: Decay of the second moment.
      epsilon: Added to the root of the second moment.
      use_locking: Whether updates lock the variables.
      apply_sparse_rmsprop: Whether sparse updates are RMSProp with momentum beta1 and decay beta2:
        without a correction of moments, and without a step of the powers.
      name: Of the optimizer and its slots.

    Example:
      >>> train_op = tf.train.AdamAsyncOptimizer(0.001).minimize(loss, global_step=global_step)
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        apply_sparse_rmsprop: bool = False,
        name: str = "AdamAsync",
    ) -> None:
        super().__init__(name, use_locking)
        self._given = (learning_rate, beta1, beta2, epsilon)
        self._sparse_rmsprop = apply_sparse_rmsprop
        self._hyperparameters: List[tf.Tensor] = []
        self._updated: List[_Updated] = []

    def make_slots(self, variable: Any) -> None:
        """See `RowOptimizer`."""
        _, beta1, beta2, _ = self._given
        for name in ("m", "v"):
            self.zeros_slot(variable, name)
        self.scalar_slot(variable, "beta1_power", beta1)
        self.scalar_slot(variable, "beta2_power", beta2)

    def read_hyperparameters(self) -> None:
        """See `RowOptimizer`."""
        names = ("learning_rate", "beta1", "beta2", "epsilon")
        self._hyperparameters = [self.number(*pair) for pair in zip(self._given, names)]
        self._updated = []

    def update_variable(self, gradient: Any, variable: Any) -> Any:
        """See `RowOptimizer`."""
        m, v, _, _ = self._slots_of(variable)
        powers = self._read_powers(variable)
        numbers = self._numbers(variable)
        memory = [memory_of(one) for one in (variable, m, v)]
        is_resource = memory[0].dtype == tf.resource
        apply = tf.raw_ops.ResourceApplyAdam if is_resource else tf.raw_ops.ApplyAdam
        names = ("lr", "beta1", "beta2", "epsilon")
        self._updated.append(_Updated(variable, powers, None))
        return apply(
            var=memory[0],
            m=memory[1],
            v=memory[2],
            beta1_power=powers[0],
            beta2_power=powers[1],
            grad=gradient,
            use_locking=self.locks_variables,
            **dict(zip(names, numbers)),
        )

    def update_slices(self, gradients: Any, variable: Any, rows: Any) -> Any:
        """See `RowOptimizer`."""
        m, v, _, _ = self._slots_of(variable)
        learning_rate, beta1, beta2, epsilon = self._numbers(variable)
        if self._sparse_rmsprop:
            values = [learning_rate, beta2, beta1, epsilon]
            return update_slices(
                *("RMSProp", variable, [v, m], values, rows, gradients),
                use_locking=self.locks_variables,
            )
        powers = self._read_powers(variable)
        values = [learning_rate, beta1, beta2, epsilon, *powers]
        self._updated.append(_Updated(variable, powers, batch_has_rows(rows, variable)))
        return update_slices(
            *("Adam", variable, [m, v], values, rows, gradients),
            use_locking=self.locks_variables,
        )

    def finish(self) -> Sequence[Any]:
        """Multiplies the powers of what was updated by their betas."""
        return [assigned for one in self._updated for assigned in self._advanced(one)]

    def _slots_of(self, variable: Any) -> Tuple[Any, ...]:
        names = ("m", "v", "beta1_power", "beta2_power")
        return tuple(self.get_slot(variable, name) for name in names)

    def _numbers(self, variable: Any) -> Sequence[tf.Tensor]:
        dtype = variable.dtype.base_dtype
        return [tf.cast(value, dtype) for value in self._hyperparameters]

    def _read_powers(self, variable: Any) -> Sequence[tf.Tensor]:
        powers = [power.read_value() for power in self._slots_of(variable)[2:]]
        return [power if power.shape.rank == 0 else tf.reshape(power, []) for power in powers]

    def _advanced(self, updated: _Updated) -> Iterator[Any]:
        slots = self._slots_of(updated.variable)[2:]
        betas = self._numbers(updated.variable)[1:3]
        for slot, power, beta in zip(slots, updated.powers, betas):
            with tf.colocate_with(slot):
                after = power * beta
                if updated.has_rows is not None:
                    after = tf.where(updated.has_rows, after, power)
                after = tf.reshape(after, slot.shape)
                yield slot.assign(after, use_locking=self.locks_variables)
