"""Optimizers for sharded tables.

`OptimizerWrapper` updates tables with a copy of the optimizer that has no state yet
(`compat/optimizer_state.py`). In graphs the update stays TensorFlow's, so that the passes know it;
eagerly, the copy does not sum rows again that come once (`compat/ascending_rows.py`).
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.ascending_rows import take_ascending_rows_as_they_are
from graph_opt.compat.optimizer_state import (
    KERAS,
    TRAIN,
    SlotRecord,
    copy_without_state,
    counters_of,
    family_of,
    learning_rate_of,
    set_learning_rate,
    unique_id,
)
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.sok.distributed_variable import TABLES

_OF_WHOLE_TABLES = ("Adafactor",)  # their steps depend on means over rows
_CLIPPING = ("clipnorm", "global_clipnorm")  # norms over all rows

GradientsAndVariables = Iterable[Tuple[Any, Any]]


class OptimizerWrapper:
    """Trains tables with an optimizer of `tf.train` or Keras (new or legacy), as it trains others.

    Hyperparameters are those of the wrapped optimizer, but slots and iterations are the wrapper's:
    the same optimizer may train other variables, and counts their steps apart.

    Args:
      optimizer: Any optimizer whose update of a row depends on nothing but that row.

    Raises:
      TypeError: It is no optimizer.

    Example:
      >>> optimizer = tf.train.AdamOptimizer(0.01)
      >>> tables, others = sok.filter_variables(tf.trainable_variables())
      >>> train_tables = sok.OptimizerWrapper(optimizer).apply_gradients(
      ...     zip(tf.gradients(loss, tables), tables))
    """

    def __init__(self, optimizer: Any) -> None:
        self._family = family_of(optimizer)
        self._optimizer = optimizer
        self._own: Any = None
        self._record: Optional[SlotRecord] = None
        self._variables: Dict[str, Any] = {}

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Any = None,
        name: Optional[str] = None,
    ) -> Any:
        """Updates variables.

        Args:
          grads_and_vars: Gradients and their variables; those whose gradient is None stay.
          global_step: A variable to increment after the update.
          name: Name of the update.

        Returns:
          In graphs the op that updates; None if there is no gradient.

        Raises:
          ValueError: The optimizer's update of a row depends on rows of other ranks.
        """
        pairs = [
            (gradient, variable) for gradient, variable in grads_and_vars if gradient is not None
        ]
        if not pairs:
            return None
        variables = [variable for _, variable in pairs]
        self._check_row_wise(variables)
        self._create_slots(variables)
        if self._family == TRAIN:
            return self._own.apply_gradients(pairs, global_step=global_step, name=name)
        updated = self._apply_keras(pairs, name)
        if global_step is None:
            return updated
        with tf.control_dependencies([] if tf.executing_eagerly() else [updated]):
            return tf.assign_add(global_step, tf.ones_like(global_step)).op

    @property
    def lr(self) -> Any:
        """The learning rate, as the optimizer has it: a number, tensor, variable or schedule."""
        return learning_rate_of(self._optimizer)

    @lr.setter
    def lr(self, value: Any) -> None:
        set_learning_rate(self._optimizer, value)
        if self._own is not None and self._family == TRAIN:
            set_learning_rate(self._own, value)

    @property
    def iterations(self) -> Mapping[str, Any]:
        """The variables that count steps: `iterations`, or powers of `tf.train`'s betas."""
        return counters_of(self._copied())

    @property
    def wrapped(self) -> Any:
        """The optimizer that the wrapper was made with."""
        return self._optimizer

    def slots_of(self, var: Any) -> Mapping[str, Any]:
        """The slots of a variable by name, made if there are none yet."""
        if unique_id(var) not in self._variables:
            self._create_slots([var])
        return self._slots[unique_id(var)]

    def get_slot_names(self) -> List[str]:
        """Names of the slots that there are."""
        self._copied()
        return self._slot_record().names()

    def get_slot(self, var: Any, name: str) -> Any:
        """A slot of a variable, which `sok.export` and `sok.assign` take; None if it has none."""
        return self._slots.get(unique_id(var), {}).get(name)

    @property
    def _slots(self) -> Dict[str, Dict[str, Any]]:
        record = self._record
        if record is None:
            return {}
        return {key: record.of(variable) for key, variable in self._variables.items()}

    def _create_slots(self, variables: Sequence[Any]) -> None:
        self._copied()
        record = self._slot_record()
        record.create(variables)
        for variable in variables:
            self._variables[unique_id(variable)] = variable
            if isinstance(variable, TABLES):
                variable.own_slots(record.of(variable))

    def _copied(self) -> Any:
        """The optimizer that updates, made when the graph is there that its variables belong to."""
        if self._own is None:
            self._own = copy_without_state(self._optimizer)
            take_ascending_rows_as_they_are(self._own)
            self._record = SlotRecord(self._own)
        return self._own

    def _slot_record(self) -> SlotRecord:
        assert self._record is not None
        return self._record

    def _apply_keras(self, pairs: Sequence[Tuple[Any, Any]], name: Optional[str]) -> Any:
        if self._family != KERAS or tf.executing_eagerly():
            return self._own.apply_gradients(pairs, name=name)

        # Keras' optimizers rely on the order in which a function runs its assignments.
        def update(gradients: Sequence[Any]) -> tf.Tensor:
            updated = self._own.apply_gradients(
                zip(gradients, [variable for _, variable in pairs]), name=name
            )
            return tf.identity(updated)

        return tf.function(update, autograph=False)([gradient for gradient, _ in pairs]).op

    def _check_row_wise(self, variables: Sequence[Any]) -> None:
        divided = [one for one in variables if isinstance(one, TABLES) and one.num_gpus > 1]
        if not divided:
            return
        kind = type(self._optimizer).__name__
        if kind in _OF_WHOLE_TABLES:
            raise ValueError(
                "{} trains a table by means over its rows, of which each rank has a part: choose "
                "another optimizer for {!r}".format(kind, divided[0].name)
            )
        for option in _CLIPPING:
            if getattr(self._optimizer, option, None) is not None:
                raise ValueError(
                    "{} has {}, a norm over rows of which each rank has a part: clip the gradients "
                    "of pooled rows, or use clipvalue, for {!r}".format(
                        kind, option, divided[0].name
                    )
                )


class SGD:
    """Gradient descent that subtracts `lr` times the gradient, from rows or whole variables.

    Args:
      lr: The learning rate: a number, tensor or variable.

    Example:
      >>> sok.SGD(lr=0.1).apply_gradients(zip(gradients, tables))
    """

    def __init__(self, lr: Any) -> None:
        self._lr = lr

    @property
    def lr(self) -> Any:
        """The learning rate."""
        return self._lr

    @lr.setter
    def lr(self, value: Any) -> None:
        self._lr = value

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Any = None,
        name: Optional[str] = None,
    ) -> Any:
        """Updates variables; see `OptimizerWrapper.apply_gradients`."""
        with tf.name_scope(name, "SGD"):
            updates = [
                _subtract(variable, gradient, tf.cast(self._lr, variable.dtype.base_dtype))
                for gradient, variable in grads_and_vars
                if gradient is not None
            ]
            if not updates:
                return None
            with tf.control_dependencies([] if tf.executing_eagerly() else updates):
                return tf.no_op() if global_step is None else tf.assign_add(global_step, 1).op


def _subtract(variable: Any, gradient: Any, rate: tf.Tensor) -> Any:
    if isinstance(variable, DynamicTableVariable):
        return variable.subtract(gradient, rate)
    if isinstance(gradient, tf.IndexedSlices):
        return variable.scatter_sub(tf.IndexedSlices(gradient.values * rate, gradient.indices))
    return variable.assign_sub(rate * gradient)
