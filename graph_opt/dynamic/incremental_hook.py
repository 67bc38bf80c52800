"""Writes incremental checkpoints while a monitored session trains."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.saver_arguments import when_built
from graph_opt.dynamic.incremental import IncrementalSaver, incremental_saver_of


class IncrementalCheckpointHook(tf.train.SessionRunHook):
    """Writes what has changed since the last full checkpoint, every so many seconds.

    Full checkpoints are the session's own. A session that restores one of them also restores the
    last increment since then.

    Args:
      checkpoint_dir: Where the session has its checkpoints.
      save_secs: Seconds between increments.
      scaffold: That of the session; None if its saver is that of the graph.
      saver: What writes the full checkpoints, if it is another one.

    Raises:
      ValueError: `save_secs` is not positive.
      RuntimeError: At the session's start: the graph has no global step.

    Example:
      >>> hook = graph_opt.train.IncrementalCheckpointHook("model", save_secs=60)
      >>> estimator = tf.estimator.Estimator(model_fn, "model")
      >>> estimator.train(input_fn, hooks=[hook])
    """

    def __init__(
        self, checkpoint_dir: str, save_secs: float, scaffold: Any = None, saver: Any = None
    ) -> None:
        if save_secs <= 0:
            raise ValueError("seconds between increments are {}; need more".format(save_secs))
        self._folder = checkpoint_dir
        self._scaffold = scaffold
        self._given = saver
        self._timer = tf.train.SecondOrStepTimer(every_secs=save_secs)
        self._saver: Optional[IncrementalSaver] = None
        self._step: Any = None

    def begin(self) -> None:
        """Adds the nodes; called before the session is made."""
        self._step = tf.train.get_global_step()
        if self._step is None:
            raise RuntimeError(
                "incremental checkpoints need a global step: call "
                "tf.train.get_or_create_global_step()"
            )
        when_built(self._given or _saver_of(self._scaffold), self._use)

    def _use(self, saver: Any) -> None:
        self._saver = incremental_saver_of(saver)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Starts to count the time."""
        self._timer.reset()
        self._timer.update_last_triggered_step(0)

    def before_run(self, run_context: Any) -> Any:
        """Asks for the step."""
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes an increment if it is time, unless a full checkpoint was just written."""
        # The step may have been read before or after the update of this run.
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = int(run_context.session.run(self._step))
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._saver is not None and self._saver.has_changes_since(step):
            self._saver.save_in(run_context.session, self._folder, step)


def _saver_of(scaffold: Any) -> Any:
    """The saver that a scaffold has, or will find in the graph."""
    if scaffold is not None and scaffold.saver is not None:
        return scaffold.saver
    savers = tf.get_collection_ref(tf.GraphKeys.SAVERS)
    if not savers:
        savers.append(tf.train.Saver(sharded=True, allow_empty=True))
    return savers[0]
