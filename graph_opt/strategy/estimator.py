"""Estimators that all ranks train alike."""

from __future__ import annotations

import tempfile
from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.estimators import become, estimators_for, save_checkpoints_every
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.strategy.data_parallel import data_parallel
from graph_opt.strategy.first_rank import on_first_rank

_estimators = estimators_for("an Estimator of a strategy")


class CollectiveEstimator(_estimators.Estimator):  # type: ignore[name-defined]
    """A `tf.estimator.Estimator` of a strategy; `collective_estimator` makes it.

    All ranks call the same methods in the same order, with input functions that give each its own
    part of the data. Rank 0 writes checkpoints, summaries and exports, and evaluates during
    `train_and_evaluate`.
    """

    _is_training = False

    def train(self, *arguments: Any, **named: Any) -> CollectiveEstimator:
        """Trains on all ranks, until rank 0 has written its last checkpoint; see `tf.estimator`."""
        self._is_training = True
        try:
            with data_parallel():
                super().train(*arguments, **named)
        finally:
            self._is_training = False
        on_first_rank(str, transport_in_use())  # Waits.
        return self

    def train_and_evaluate(
        self, train_spec: Any, eval_spec: Any, eval_every_n_iter: Optional[int] = None
    ) -> Any:
        """`tf.estimator.train_and_evaluate` on all ranks.

        Args:
          train_spec: A `tf.estimator.TrainSpec`.
          eval_spec: A `tf.estimator.EvalSpec`.
          eval_every_n_iter: Steps between evaluations, and between the checkpoints that they read;
            by default, each of the config's checkpoints is evaluated after `throttle_secs`.

        Returns:
          On rank 0 the last metrics and exports, as TensorFlow; None for both on other ranks.
        """
        if eval_every_n_iter is not None:
            save_checkpoints_every(self, eval_every_n_iter)
            eval_spec = eval_spec._replace(throttle_secs=0)
        return _estimators.train_and_evaluate(self, train_spec, eval_spec)

    def export_saved_model(self, *arguments: Any, **named: Any) -> Any:
        """Exports on rank 0, for which the others wait; returns the folder on all ranks."""
        export = super().export_saved_model
        if self._is_training:  # An exporter of rank 0, while it evaluates.
            return export(*arguments, **named)
        folder = on_first_rank(
            lambda: tf.compat.as_str(export(*arguments, **named)), transport_in_use()
        )
        return folder.encode("utf-8")


def collective_estimator(
    model_fn: Any, model_dir: Optional[str] = None, config: Any = None, **arguments: Any
) -> CollectiveEstimator:
    """A `tf.estimator.Estimator` that all ranks train alike.

    Args:
      model_fn: As for `tf.estimator.Estimator`.
      model_dir: A folder that all ranks see; one of rank 0's temporary ones by default.
      config: A `tf.estimator.RunConfig`.
      **arguments: Others of `tf.estimator.Estimator`.
    """
    if model_dir is None and (config is None or config.model_dir is None):
        model_dir = on_first_rank(tempfile.mkdtemp, transport_in_use())
    stock = _estimators.Estimator(model_fn, model_dir, config, **arguments)
    estimator: CollectiveEstimator = become(stock, CollectiveEstimator)
    return estimator
