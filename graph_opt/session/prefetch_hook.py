"""The hook that starts a session's prefetch threads and stops them."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session
from graph_opt.runtime.runner import StageRunner
from graph_opt.runtime.stages import stages_of
from graph_opt.session.session import starts_stages
from graph_opt.session.stage_reach import StageReach

_NOT_OURS = (
    "stage '{}' applies gradients between steps, and only a session of graph_opt waits for that "
    "before a checkpoint: open a graph_opt.Session, or leave pipeline_dense off"
)


class PrefetchHook(tf.train.SessionRunHook):
    """Runs the stages of every session it is given; created by `make_prefetch_hook`."""

    def __init__(self, daemon: bool, start: bool) -> None:
        """Takes the options of `make_prefetch_hook`."""
        self._daemon = daemon
        self._starts_automatically = start
        self._runner: Optional[StageRunner] = None

    @property
    def runner(self) -> Optional[StageRunner]:
        """The runner of the last session that had stages, even after it ended; None before."""
        return self._runner

    def after_create_session(self, session: Any, coord: Optional[Any] = None) -> None:
        """Starts the threads, IO stages first; called again for each session created on recovery.

        Args:
          session: The new session, which may be a plain `tf.Session`.
          coord: A `tf.train.Coordinator` whose stop ends the threads, or None.

        Raises:
          tf.errors.InvalidArgumentError: The session lacks a thread pool that a stage asks for.
        """
        if self._starts_automatically:
            self.start(session, coord)

    def start(self, session: Any, coord: Optional[Any] = None) -> None:
        """Does what `after_create_session` does, for a hook made with `start=False`."""
        self._stop()
        raw = raw_session(session)
        stages = stages_of(raw.graph)
        if starts_stages(raw):  # Once a step chooses them, or trains.
            chosen = StageReach(raw.graph).chosen()
            stages = [
                stage for stage in stages if stage.name not in chosen and not stage.spec.is_pipeline
            ]
        for stage in stages:
            if stage.spec.is_pipeline:
                raise tf.errors.FailedPreconditionError(None, None, _NOT_OURS.format(stage.name))
        if stages:
            self._runner = StageRunner(stages, session, coord, daemon=self._daemon)
            self._runner.start()

    def end(self, session: Optional[Any] = None) -> None:
        """Cancels the buffers and waits for the threads."""
        del session  # the runner knows its own
        self._stop()

    def _stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()


def make_prefetch_hook(daemon: bool = True, start: bool = True) -> PrefetchHook:
    """Creates the hook that runs a session's stages: those of `staged` and of the async pass.

    Put it last in `hooks=[...]`, so that iterators initialized by other hooks are ready. One hook
    is enough; with several, the threads are still started only once. The threads end when the input
    ends, when the session ends, when the coordinator stops, and on the first error, which main's
    `session.run` raises with its original type and message.

    Args:
      daemon: Whether the process may exit while the threads are running.
      start: Whether the threads start with each new session; otherwise call `hook.start(session)`.

    Returns:
      A `tf.train.SessionRunHook`.

    Example:
      >>> hook = graph_opt.make_prefetch_hook()
      >>> with tf.train.MonitoredTrainingSession(hooks=[hook]) as monitored:
      ...   monitored.run(train_op)

      With a plain session:

      >>> hook = graph_opt.make_prefetch_hook()
      >>> hook.after_create_session(session)
      >>> session.run(train_op)
      >>> hook.end(session)
    """
    return PrefetchHook(daemon, start)
