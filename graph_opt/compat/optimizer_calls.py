"""What the optimizers of `tf.train` compute and apply, whatever their class."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, List, Tuple

from graph_opt.compat import tf

Pairs = List[Tuple[Any, Any]]
# From an optimizer and its gradients with their variables to those that are used instead.
Through = Callable[[Any, Iterable[Tuple[Any, Any]]], Pairs]


def gradients_go_through(computed: Through, applied: Through) -> Callable[[], None]:
    """Changes `compute_gradients` and `apply_gradients` of all optimizers of the process.

    Optimizers that wrap another one, such as Horovod's, are not changed: the one that they wrap is.

    Args:
      computed: Gets what `compute_gradients` returns.
      applied: Gets what `apply_gradients` is given.

    Returns:
      A function that undoes it; the last change must be undone first.
    """
    optimizer_class = tf.train.Optimizer
    stock_compute = optimizer_class.compute_gradients
    stock_apply = optimizer_class.apply_gradients

    @functools.wraps(stock_compute)
    def compute_gradients(self: Any, *arguments: Any, **named: Any) -> Pairs:
        return computed(self, stock_compute(self, *arguments, **named))

    @functools.wraps(stock_apply)
    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **named: Any) -> Any:
        return stock_apply(self, applied(self, grads_and_vars), *arguments, **named)

    def undo() -> None:
        optimizer_class.compute_gradients = stock_compute
        optimizer_class.apply_gradients = stock_apply

    optimizer_class.compute_gradients = compute_gradients
    optimizer_class.apply_gradients = apply_gradients
    return undo
