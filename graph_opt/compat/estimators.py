"""TensorFlow's Estimators, where it has them, and what they change after they were made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.imported_attributes import ImportedAttribute


def estimators_for(asker: str) -> Any:
    """`tf.estimator`, which releases after 2.15 no longer have.

    Args:
      asker: What needs it, for the error.

    Raises:
      ImportError: This TensorFlow has no Estimators.
    """
    found = getattr(tf, "estimator", None)
    if found is not None:
        return found
    raise ImportError(
        "{} needs tf.estimator, which TensorFlow {} does not have: 2.15 is the last release with "
        "Estimators; tf.train.MonitoredTrainingSession runs a model_fn's graph".format(
            asker, tf.version.VERSION
        )
    )


def estimator_configs(config: Any) -> ImportedAttribute:
    """Makes `tf.estimator.RunConfig` accept any config that `config` calls an instance.

    Later releases ask whether it is a `tf.ConfigProto`, by that name; TensorFlow 1's estimators ask
    the module that has the class.

    Args:
      config: What `tf.ConfigProto` stands for.
    """

    def replaced(stock: Any) -> Any:
        return stock and SimpleNamespace(**dict(vars(stock), ConfigProto=config))

    return ImportedAttribute(
        "tensorflow_estimator.python.estimator.run_config", "config_pb2", replaced
    )


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
