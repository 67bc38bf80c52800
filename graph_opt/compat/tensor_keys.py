"""Tensors and variables as keys of dicts: references to them, or in TensorFlow 1 themselves.

Sessions get their feeds so.
"""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf


def _reference(value: Any) -> Any:
    return value.ref()


def _referred(key: Any) -> Any:
    return key.deref()


def _itself(value: Any) -> Any:
    return value


# Functions, rather than a choice in each call: they are called for each feed of each step.
key_of = _reference if hasattr(tf.Tensor, "ref") else _itself
tensor_of = _referred if hasattr(tf.Tensor, "ref") else _itself
