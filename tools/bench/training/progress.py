"""A progress bar for a monitored session: steps, steps/s, time left, loss."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
import tqdm


class ProgressHook(tf.train.SessionRunHook):
    """Shows a tqdm bar that counts `session.run` calls.

    Args:
      steps: steps expected; None: unknown, the bar then shows no time left.
      loss: shown now and then beside the bar.
      title: text before the bar.
    """

    def __init__(self, steps: Optional[int], loss: tf.Tensor, title: str) -> None:
        self._steps = steps
        self._loss = loss
        self._title = title
        self._bar: Optional[Any] = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Opens the bar once the session stands, so that set-up does not count as training."""
        if self._bar is None:
            self._bar = tqdm.tqdm(
                total=self._steps, desc=self._title, unit="step", mininterval=0.5, disable=None
            )

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the loss, at every step.

        Each set of fetches is a graph that TensorFlow prepares anew, which takes seconds for a
        large one: a loss that is fetched now and then would stop the training for it.
        """
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Moves the bar on."""
        assert self._bar is not None
        self._bar.set_postfix(loss=f"{run_values.results:.4f}", refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Leaves the bar as it stands; safe to call more than once."""
        if self._bar is not None:
            self._bar.close()
