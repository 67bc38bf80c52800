"""DeepRec's optimizers, and their formulas in numpy."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.optimizers.adagrad_decay import AdagradDecayOptimizer, AdagradDecayOptimizerV2
from graph_opt.optimizers.adam_async import AdamAsyncOptimizer

Arrays = Dict[str, np.ndarray]


class Formula:
    """An optimizer of one variable, in double precision; steps count from 0.

    Args:
      weights: Of the variable, [rows, ...].
    """

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights.astype(np.float64)
        self.step = 0

    def dense(self, gradient: np.ndarray) -> None:
        """One step of the whole variable."""
        self.sparse(list(range(len(self.weights))), gradient)

    def sparse(self, rows: List[int], gradients: np.ndarray) -> None:
        """One step of some rows, with duplicates."""
        unique = np.unique(np.array(rows, np.int64))
        summed = np.zeros((len(unique), *self.weights.shape[1:]))
        for row, gradient in zip(rows, gradients):
            summed[np.searchsorted(unique, row)] += gradient
        if len(unique):
            self.move(unique, summed)
        self.step += 1

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        """Moves rows, each once; not called without any."""
        raise NotImplementedError


class AdamAsync(Formula):
    """With powers that count this variable's own steps."""

    rate, beta1, beta2, epsilon = 0.1, 0.9, 0.99, 1e-6

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.m, self.v = np.zeros_like(self.weights), np.zeros_like(self.weights)
        self.powers = [self.beta1, self.beta2]

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        rate = self.rate * np.sqrt(1 - self.powers[1]) / (1 - self.powers[0])
        self.m[rows] = self.beta1 * self.m[rows] + (1 - self.beta1) * gradient
        self.v[rows] = self.beta2 * self.v[rows] + (1 - self.beta2) * gradient**2
        self.weights[rows] -= rate * self.m[rows] / (np.sqrt(self.v[rows]) + self.epsilon)
        self.powers = [self.powers[0] * self.beta1, self.powers[1] * self.beta2]


class AdamAsyncRMSProp(AdamAsync):
    """Its sparse updates if they are to be RMSProp."""

    def dense(self, gradient: np.ndarray) -> None:
        AdamAsync.move(self, np.arange(len(self.weights)), gradient)

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        self.v[rows] = self.beta2 * self.v[rows] + (1 - self.beta2) * gradient**2
        step = self.rate * gradient / np.sqrt(self.v[rows] + self.epsilon)
        self.m[rows] = self.beta1 * self.m[rows] + step
        self.weights[rows] -= self.m[rows]


class AdagradDecay(Formula):
    """A decay every second step."""

    rate, initial, every, decay = 0.1, 0.2, 2, 0.5

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.accumulator = np.full_like(self.weights, self.initial)
        self.power = np.zeros(len(self.weights), np.int64)

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        due = (self.step + 1) // self.every > self.power[rows]
        late = rows[due]
        self.accumulator[late] = np.maximum(self.accumulator[late] * self.decay, self.initial)
        self.power[late] += 1
        self.accumulator[rows] += gradient**2
        self.weights[rows] -= self.rate * gradient / np.sqrt(self.accumulator[rows])


class Case(NamedTuple):
    """An optimizer, made from the global step, and its formula."""

    make: Callable[[Any], Any]
    formula: Callable[[np.ndarray], Formula]


def _adam_async(step: Any, **options: Any) -> Any:
    a = AdamAsync
    return AdamAsyncOptimizer(a.rate, a.beta1, a.beta2, a.epsilon, **options)


def _adagrad_decay(kind: Any, step: Any) -> Any:
    a = AdagradDecay
    return kind(tf.constant(a.rate), step, a.initial, a.every, a.decay)


CASES: Dict[str, Case] = {
    "adam_async": Case(_adam_async, AdamAsync),
    "adam_async_rms_prop": Case(
        lambda step: _adam_async(step, apply_sparse_rmsprop=True), AdamAsyncRMSProp
    ),
    "adagrad_decay": Case(lambda step: _adagrad_decay(AdagradDecayOptimizer, step), AdagradDecay),
    "adagrad_decay_2": Case(
        lambda step: _adagrad_decay(AdagradDecayOptimizerV2, step), AdagradDecay
    ),
}
