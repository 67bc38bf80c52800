"""Handles of dynamic tables, and a model of what they hold, for tests."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import numpy as np

from graph_opt.compat import tf
from graph_opt.ops import dynamic_table


class TableUnderTest:
    """A dynamic table with slots that begin with given values, made by `initializer`."""

    def __init__(
        self,
        name: str,
        dim: int,
        slots: Optional[Dict[str, float]] = None,
        bank: Optional[np.ndarray] = None,
        **options: Any,
    ) -> None:
        self.name = name
        self.dim = dim
        if bank is not None:
            options["initial"] = {"kind": "bank"}
        self.options = json.dumps({"dim": dim, **options})
        self.handle = _handle(name, dim)
        self.slots = {slot: _handle(name + "/" + slot, dim) for slot in slots or {}}
        no_bank = np.zeros([0, dim], np.float32)
        self.initializer = dynamic_table.initialize_table(
            self.handle, no_bank if bank is None else bank, self.options
        )
        self.slot_initializers = [
            dynamic_table.initialize_slot(
                self.handle, handle, slot, (slots or {})[slot], self.options
            )
            for slot, handle in self.slots.items()
        ]
        self.initializers = [self.initializer, *self.slot_initializers]

    def apply(self, optimizer: str, values: List[float], keys: Any, gradients: Any) -> Any:
        """Updates rows by an optimizer, of which the slots are given in its order."""
        return dynamic_table.apply_to_keys(
            optimizer, self.handle, list(self.slots.values()), values, keys, gradients
        )


class ModelOfMomentum:
    """Rows of keys in a dict, which begin with those of a bank, and Momentum's slot."""

    def __init__(self, bank: np.ndarray, learning_rate: float, momentum: float) -> None:
        self.bank = bank
        self.rows: Dict[int, np.ndarray] = {}
        self.momentums: Dict[int, np.ndarray] = {}
        self.learning_rate = np.float32(learning_rate)
        self.momentum = np.float32(momentum)

    def lookup(self, keys: np.ndarray, insert: bool) -> np.ndarray:
        found = np.zeros([len(keys), self.bank.shape[1]], np.float32)
        for i, key in enumerate(keys.tolist()):
            default = self.bank[key % len(self.bank)]
            if insert:
                self.rows.setdefault(key, default.copy())
                self.momentums.setdefault(key, np.zeros_like(default))
            found[i] = self.rows.get(key, default)
        return found

    def apply(self, keys: np.ndarray, gradients: np.ndarray) -> None:
        sums: Dict[int, np.ndarray] = {}
        for key, gradient in zip(keys.tolist(), gradients):
            sums[key] = sums[key] + gradient if key in sums else gradient
        for key, gradient in sums.items():
            if key in self.rows:
                self.momentums[key] = self.momentums[key] * self.momentum + gradient
                self.rows[key] = self.rows[key] - self.momentums[key] * self.learning_rate

    def erase(self, keys: np.ndarray) -> None:
        for key in keys.tolist():
            self.rows.pop(key, None)
            self.momentums.pop(key, None)


def _handle(name: str, dim: int) -> tf.Tensor:
    return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[None, dim], shared_name=name, name=name)
