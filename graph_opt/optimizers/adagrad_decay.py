"""Adagrad whose accumulators shrink from time to time, so that learning does not come to an end."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.gradient_marks import marked_gradient
from graph_opt.compat.train_optimizers import RowOptimizer
from graph_opt.ops.row_formulas import adagrad_decay
from graph_opt.optimizers.slices import update_slices


class AdagradDecayOptimizer(RowOptimizer):
    """DeepRec's AdagradDecay.

    Every `accumulator_decay_step` steps, accumulators are multiplied by `accumulator_decay_rate`,
    but stay at least at their initial value. A row's accumulator shrinks in the row's own updates,
    once in each at most, until it has caught up with the steps. How often it has is kept in a slot,
    `accumulator_decay_power`, which in checkpoints has the dtype of `global_step` and the shape of
    the variable.

    Args:
      learning_rate: A number, tensor or function.
      global_step: The variable that counts steps.
      initial_accumulator_value: Of all accumulators, and their least value.
      accumulator_decay_step: Steps between two decays.
      accumulator_decay_rate: What accumulators are multiplied by.
      use_locking: Whether updates lock the variables.
      name: Of the optimizer and its slots.

    Raises:
      ValueError: A value is out of range.

    Example:
      >>> optimizer = tf.train.AdagradDecayOptimizer(0.1, tf.train.get_global_step())
    """

    _power_like_table = True

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_accumulator_value: float = 0.1,
        accumulator_decay_step: int = 100000,
        accumulator_decay_rate: float = 0.9,
        use_locking: bool = False,
        name: str = "AdagradDecay",
    ) -> None:
        _require(initial_accumulator_value > 0, "initial_accumulator_value", "more than 0")
        _require(accumulator_decay_step > 0, "accumulator_decay_step", "more than 0")
        _require(0 < accumulator_decay_rate < 1, "accumulator_decay_rate", "between 0 and 1")
        _require(global_step is not None, "global_step", "the variable that counts steps")
        super().__init__(name, use_locking)
        self._learning_rate = learning_rate
        self._global_step = global_step
        self._initial = initial_accumulator_value
        self._decay_step = accumulator_decay_step
        self._decay_rate = accumulator_decay_rate
        self._hyperparameters: List[tf.Tensor] = []

    def make_slots(self, variable: Any) -> None:
        """See `RowOptimizer`."""
        self.filled_slot(variable, "accumulator", self._initial)
        dtype = self._global_step.dtype.base_dtype
        self.row_number_slot(variable, "accumulator_decay_power", dtype, self._power_like_table)

    def read_hyperparameters(self) -> None:
        """See `RowOptimizer`."""
        step = tf.convert_to_tensor(self._global_step)
        due = tf.math.floordiv(step + 1, tf.cast(self._decay_step, step.dtype))
        self._hyperparameters = [
            self.number(self._learning_rate, "learning_rate"),
            tf.constant(self._decay_rate, tf.float32),
            tf.constant(self._initial, tf.float32),
            tf.cast(due, tf.float32),
        ]

    def update_variable(self, gradient: Any, variable: Any) -> Any:
        """See `RowOptimizer`."""
        slots = self._slots_of(variable)
        old = [one.read_value() for one in (variable, *slots)]
        values = [tf.cast(one, variable.dtype.base_dtype) for one in self._hyperparameters]
        new = adagrad_decay(values, marked_gradient(gradient), old[0], old[1:])
        changed = [
            one.assign(value, use_locking=self.locks_variables)
            for one, value in zip((variable, *slots), new)
        ]
        return tf.group(*changed)

    def update_slices(self, gradients: Any, variable: Any, rows: Any) -> Any:
        """See `RowOptimizer`."""
        return update_slices(
            "AdagradDecay",
            variable,
            self._slots_of(variable),
            self._hyperparameters,
            rows,
            gradients,
            use_locking=self.locks_variables,
        )

    def _slots_of(self, variable: Any) -> Sequence[Any]:
        names = ("accumulator", "accumulator_decay_power")
        return [self.get_slot(variable, name) for name in names]


class AdagradDecayOptimizerV2(AdagradDecayOptimizer):
    """DeepRec's second version, which gives the numbers of the first.

    Checkpoints have one `accumulator_decay_power` for each row.

    Args:
      learning_rate: As all others, see `AdagradDecayOptimizer`.
      global_step: See there.
      initial_accumulator_value: See there.
      accumulator_decay_step: See there.
      accumulator_decay_rate: See there.
      use_locking: See there.
      name: See there.

    Example:
      >>> optimizer = tf.train.AdagradDecayOptimizerV2(0.1, tf.train.get_global_step())
    """

    _power_like_table = False

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_accumulator_value: float = 0.1,
        accumulator_decay_step: int = 100000,
        accumulator_decay_rate: float = 0.9,
        use_locking: bool = False,
        name: Optional[str] = "AdagradDecayV2",
    ) -> None:
        super().__init__(
            learning_rate,
            global_step,
            initial_accumulator_value,
            accumulator_decay_step,
            accumulator_decay_rate,
            use_locking,
            name or "AdagradDecayV2",
        )


def _require(holds: bool, name: str, need: str) -> None:
    if not holds:
        raise ValueError("{} must be {}".format(name, need))
