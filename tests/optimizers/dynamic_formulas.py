"""DeepRec's formulas for EmbeddingVariables in numpy: rows by key, all of which begin alike."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.optimizers.adam_w import AdamWOptimizer
from tests.optimizers.deeprec_models import CASES, Formula

INITIAL = 0.25
DIM = 5


class AdamW(Formula):
    """The decay is a part of Adam's step; powers count all steps."""

    rate, decay, beta1, beta2, epsilon = 0.1, 0.2, 0.9, 0.999, 1e-8

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.m, self.v = np.zeros_like(self.weights), np.zeros_like(self.weights)

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        powers = [beta ** (self.step + 1) for beta in (self.beta1, self.beta2)]
        rate = self.rate * np.sqrt(1 - powers[1]) / (1 - powers[0])
        self.m[rows] += (gradient - self.m[rows]) * (1 - self.beta1)
        self.v[rows] += (gradient**2 - self.v[rows]) * (1 - self.beta2)
        step = self.m[rows] / (np.sqrt(self.v[rows]) + self.epsilon)
        self.weights[rows] -= rate * (step + self.decay * self.weights[rows])


class GroupLassoFtrl(Formula):
    """l1 bounds the norm of a row of the linear slot."""

    rate, power, initial, l1, l2, shrinkage = 0.1, 0.5, 0.1, 1.5, 0.02, 0.05

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.accumulator = np.full_like(self.weights, self.initial)
        self.linear = np.zeros_like(self.weights)

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        weights, old = self.weights[rows], self.accumulator[rows]
        shrunk = gradient + 2 * self.shrinkage * weights
        new = (old + shrunk**2) ** self.power
        self.linear[rows] += shrunk - (new - old**self.power) / self.rate * weights
        linear = self.linear[rows]
        norm = np.sqrt(np.sum(linear**2, axis=1, keepdims=True))
        moved = linear * (self.l1 - norm) / ((new / self.rate + 2 * self.l2) * norm)
        self.weights[rows] = np.where(norm > self.l1, moved, 0)
        self.accumulator[rows] += gradient**2


class Adagrad(Formula):
    """TensorFlow's."""

    rate, initial = 0.1, 0.1

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.accumulator = np.full_like(self.weights, self.initial)

    def move(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        self.accumulator[rows] += gradient**2
        self.weights[rows] -= self.rate * gradient / np.sqrt(self.accumulator[rows])


class Adam(AdamW):
    """Of the rows that a step touches alone."""

    decay = 0.0


class DynamicCase(NamedTuple):
    """An optimizer, made from the global step, and its formula."""

    make: Callable[[Any], Any]
    formula: Callable[[np.ndarray], Formula]


def _ftrl(step: Any) -> Any:
    f = GroupLassoFtrl
    return tf.train.FtrlOptimizer(
        *(f.rate, -f.power, f.initial, f.l1, f.l2),
        l2_shrinkage_regularization_strength=f.shrinkage,
    )


DYNAMIC_CASES: Dict[str, DynamicCase] = {
    **{name: DynamicCase(*case) for name, case in CASES.items()},
    "adam_w": DynamicCase(lambda step: AdamWOptimizer(AdamW.decay, AdamW.rate), AdamW),
    "adam": DynamicCase(lambda step: tf.train.AdamOptimizer(Adam.rate), Adam),
    "adagrad": DynamicCase(lambda step: tf.train.AdagradOptimizer(Adagrad.rate), Adagrad),
    "ftrl": DynamicCase(_ftrl, GroupLassoFtrl),
}


class KeyedFormula:
    """A formula of rows by key.

    Args:
      case: Its name.
    """

    def __init__(self, case: str) -> None:
        self.keys: List[int] = []
        self._formula = DYNAMIC_CASES[case].formula(np.full([64, DIM], INITIAL))

    def apply(self, keys: List[int], gradients: np.ndarray) -> None:
        """One step."""
        self.keys.extend(dict.fromkeys(key for key in keys if key not in self.keys))
        self._formula.sparse([self.keys.index(key) for key in keys], gradients)

    def rows(self) -> np.ndarray:
        """Of the keys, in the order in which they came."""
        return self._formula.weights[: len(self.keys)]
