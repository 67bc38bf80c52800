"""Estimators whose class and config change after they were made."""

from __future__ import annotations

from typing import Any


def become(estimator: Any, estimator_class: Any) -> Any:
    """Makes an estimator one of another class; TensorFlow's constructor refuses to.

    Args:
      estimator: A `tf.estimator.Estimator`.
      estimator_class: A subclass, which may override methods.
    """
    estimator.__class__ = estimator_class
    return estimator


def save_checkpoints_every(estimator: Any, steps: int) -> None:
    """From now on, the estimator saves a checkpoint after so many steps."""
    estimator._config = estimator._config.replace(
        save_checkpoints_secs=None, save_checkpoints_steps=steps
    )
