"""Optimizers of `tf.train` whose updates a subclass writes, by public names.

Relies on the methods by which `tf.train.Optimizer` makes slots and hands over gradients.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence, Set

from graph_opt.compat import tf
from graph_opt.compat.row_number_slots import RowNumbers, store_as_row_numbers
from graph_opt.compat.table_training import PlainSlot, is_dynamic_table
from graph_opt.compat.tensor_keys import key_of

__all__ = ["AdamOfRows", "DecayingAdam", "RowOptimizer", "memory_of", "set_rows"]


class RowOptimizer(tf.train.Optimizer):
    """An optimizer whose update of a row depends on nothing but that row.

    Args:
      name: Of the optimizer, and of its slots.
      use_locking: Whether updates lock the variables.
    """

    def __init__(self, name: str, use_locking: bool) -> None:
        super().__init__(use_locking, name)
        self.locks_variables = use_locking

    def make_slots(self, variable: Any) -> None:
        """Makes the slots of a variable, with `zeros_slot` and the others below."""
        raise NotImplementedError

    def read_hyperparameters(self) -> None:
        """Called once for each call of `apply_gradients`, before the first update."""
        raise NotImplementedError

    def update_variable(self, gradient: Any, variable: Any) -> Any:
        """Updates a whole variable by a gradient of its shape, and returns the operation."""
        raise NotImplementedError

    def update_slices(self, gradients: Any, variable: Any, rows: Any) -> Any:
        """Updates rows, with duplicates, by their gradients, and returns the operation."""
        raise NotImplementedError

    def finish(self) -> Sequence[Any]:
        """Called once for each call of `apply_gradients`, after all updates have ended.

        Returns:
          The operations of the optimizer's own that end the step.
        """
        return []

    def zeros_slot(self, variable: Any, name: str) -> Any:
        """A slot like the variable, of zeros at first."""
        return self._zeros_slot(variable, name, self._name)

    def row_number_slot(self, variable: Any, name: str, dtype: Any, like_table: bool) -> Any:
        """A slot of one number for each row, in all of its columns: 0 at first.

        Args:
          variable: The variable or dynamic table.
          name: Of the slot.
          dtype: That it has in checkpoints.
          like_table: Whether it has the shape of the variable's rows there; else one number each.
        """
        slot = self.zeros_slot(variable, name)
        form = RowNumbers(dtype, like_table)
        if is_dynamic_table(variable):
            slot.store_as(form)
        else:
            store_as_row_numbers(slot, form)
        return slot

    def filled_slot(self, variable: Any, name: str, value: float) -> Any:
        """A slot like the variable, filled with a number at first."""
        dtype = variable.dtype.base_dtype
        filled = tf.constant_initializer(value)
        return self._get_or_make_slot_with_initializer(
            variable, filled, variable.get_shape(), dtype, name, self._name
        )

    def scalar_slot(self, variable: Any, name: str, value: float) -> Any:
        """A slot that is one number; beside a dynamic table one in a vector, as in DeepRec."""
        dtype = variable.dtype.base_dtype
        shape = tf.TensorShape([1] if is_dynamic_table(variable) else [])
        return self._get_or_make_slot_with_initializer(
            variable, PlainSlot(value), shape, dtype, name, self._name
        )

    def number(self, value: Any, name: str) -> Any:
        """A hyperparameter as a tensor: of a number, tensor, variable or function."""
        return tf.convert_to_tensor(self._call_if_callable(value), name=name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            self.make_slots(variable)

    def _prepare(self) -> None:
        self.read_hyperparameters()

    def _finish(self, update_ops: Sequence[Any], name_scope: Optional[str]) -> Any:
        with tf.control_dependencies([] if tf.executing_eagerly() else list(update_ops)):
            finished = self.finish()
        return tf.group(*update_ops, *finished, name=name_scope)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self.update_variable(grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self.update_variable(grad, handle)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return self.update_slices(grad.values, var, grad.indices)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self.update_slices(grad, handle, indices)


class AdamOfRows(tf.train.AdamOptimizer):
    """`tf.train.AdamOptimizer` whose sparse updates a subclass writes."""

    @property
    def locks_variables(self) -> bool:
        """Whether updates lock the variables."""
        return bool(self._use_locking)

    def update_slices(self, gradients: Any, variable: Any, rows: Any) -> Any:
        """Updates rows, with duplicates, by their gradients, and returns the operation."""
        raise NotImplementedError

    def numbers(self, variable: Any) -> Sequence[tf.Tensor]:
        """Learning rate, betas, epsilon and powers of the betas, within `apply_gradients`."""
        powers = self._get_beta_accumulators()
        given = (self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t, *powers)
        return [tf.cast(one, variable.dtype.base_dtype) for one in given]

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        return self.update_slices(grad.values, var, grad.indices)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self.update_slices(grad, handle, indices)


class DecayingAdam(tf.train.AdamOptimizer):
    """`tf.train.AdamOptimizer` that shrinks what it is about to move.

    Args:
      weight_decay: The part of a weight that is lost in a step: a number, tensor or function.
      **arguments: Those of `tf.train.AdamOptimizer`.
    """

    def __init__(self, weight_decay: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._weight_decay = weight_decay
        self._weight_decay_t: Any = None
        self._decayed: Optional[Set[Any]] = None
        self._powers: Optional[Sequence[tf.Tensor]] = None

    def minimize(
        self, loss: Any, *arguments: Any, decay_var_list: Any = None, **named: Any
    ) -> tf.Operation:
        """One step; see `tf.train.Optimizer.minimize`.

        Args:
          loss: What is minimized.
          *arguments: As there.
          decay_var_list: The variables that decay; None for all.
          **named: As there.
        """
        self._decay_only(decay_var_list)
        return super().minimize(loss, *arguments, **named)

    def apply_gradients(
        self,
        grads_and_vars: Any,
        global_step: Any = None,
        name: Optional[str] = None,
        decay_var_list: Any = None,
    ) -> tf.Operation:
        """One step; see `tf.train.Optimizer.apply_gradients`.

        Args:
          grads_and_vars: Gradients and their variables.
          global_step: A variable to increment after the update.
          name: Name of the update.
          decay_var_list: The variables that decay; None for all, or for those of `minimize`.
        """
        if decay_var_list is not None:
            self._decay_only(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def decay_rate(self) -> Any:
        """The weight decay as a tensor, within `apply_gradients`."""
        return self._weight_decay_t

    def _decay_only(self, variables: Optional[Iterable[Any]]) -> None:
        self._decayed = None if variables is None else {key_of(one) for one in variables}

    def _prepare(self) -> None:
        super()._prepare()
        decay = self._call_if_callable(self._weight_decay)
        self._weight_decay_t = tf.convert_to_tensor(decay, name="weight_decay")
        # Read here, as what is read behind a decay would wait for that of its variable.
        self._powers = [tf.convert_to_tensor(one) for one in super()._get_beta_accumulators()]

    def _get_beta_accumulators(self) -> Sequence[Any]:
        powers: Sequence[Any] = self._powers or super()._get_beta_accumulators()
        return powers

    def _finish(self, update_ops: Sequence[Any], name_scope: Optional[str]) -> Any:
        self._powers = None  # which are about to change
        return super()._finish(update_ops, name_scope)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._after_decay(
            var, grad, None, lambda: super(DecayingAdam, self)._apply_dense(grad, var)
        )

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._after_decay(
            var, grad, None, lambda: super(DecayingAdam, self)._resource_apply_dense(grad, var)
        )

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._after_decay(
            var,
            grad.values,
            grad.indices,
            lambda: super(DecayingAdam, self)._apply_sparse(grad, var),
        )

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._after_decay(
            var,
            grad,
            indices,
            lambda: super(DecayingAdam, self)._resource_apply_sparse(grad, var, indices),
        )

    def _after_decay(
        self, variable: Any, gradient: Any, rows: Any, update: Callable[[], Any]
    ) -> Any:
        if self._decayed is not None and key_of(variable) not in self._decayed:
            return update()
        rate = tf.cast(self._weight_decay_t, variable.dtype.base_dtype)
        # The gradient is of the weights as they were, so they wait for it.
        with tf.control_dependencies([] if tf.executing_eagerly() else [gradient]):
            if rows is None:
                lost = rate * variable.read_value()
                decayed = variable.assign_sub(lost, use_locking=self._use_locking)
            else:
                slices = tf.IndexedSlices(rate * tf.gather(variable, rows), rows)
                decayed = variable.scatter_sub(slices, use_locking=self._use_locking)
        with tf.control_dependencies([] if tf.executing_eagerly() else [decayed]):
            return update()


def memory_of(variable: Any) -> Any:
    """A variable's resource handle, or its reference."""
    return variable.handle if hasattr(variable, "handle") else variable._ref()


def set_rows(variable: Any, rows: Any, values: Any) -> Any:
    """Sets rows, each once, and returns the operation or what waits for it."""
    return variable.scatter_update(tf.IndexedSlices(values, rows))
