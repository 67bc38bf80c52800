"""TensorFlow's monitored sessions with prefetching; signatures and behaviour are TensorFlow's.

A training graph is optimized once, before `Scaffold.finalize`; graphs that train nothing are not
prefetched. The `tf.Session` inside becomes a `graph_opt.Session`, so that fetches by original
names, summaries and logging hooks see the batch of their step.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.session_creators import (
    creator_config,
    creator_master,
    creator_scaffold,
    training_session_of,
    watch_looks,
)
from graph_opt.compat.sessions import USE_DEFAULT, adopt
from graph_opt.config import to_stock
from graph_opt.config.messages import SessionConfig
from graph_opt.dynamic.incremental_hook import IncrementalCheckpointHook
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.session.chief_wait import READY_SECONDS, ChiefWait
from graph_opt.session.hooks import with_async_hook
from graph_opt.session.installed_config import checked_options, effective_config
from graph_opt.session.optimization import optimize_training_graph
from graph_opt.session.recovery import Recovery
from graph_opt.session.session import adopt_session
from graph_opt.strategy.data_parallel_graph import is_writer, with_first_values


class _OptimizingCreator:
    """A mixin for classes derived from a session creator of TensorFlow."""

    def _asked_for(self, config: Optional[SessionConfig], master: str) -> Any:
        """Keeps what sessions are to do; the config that TensorFlow opens them with."""
        self._wanted = _checked_config(config, master)
        self._wanted_target = master or ""
        self._recovery = Recovery(self._wanted, self._wanted_target)
        return _stock_config(self._wanted, master)

    def create_session(self) -> Any:
        """Optimizes the graph on the first call, finalizes it, and opens the session."""
        graph = tf.get_default_graph()
        optimize_training_graph(graph, self._wanted, self._wanted_target)
        with self._recovery.new_session(graph, creator_config(self), creator_scaffold(self)):
            session = super().create_session()  # type: ignore[misc]  # TensorFlow's
        adopt_session(session, self._wanted)
        return session


class ChiefSessionCreator(_OptimizingCreator, tf.train.ChiefSessionCreator):
    """A `tf.train.ChiefSessionCreator` that optimizes the graph; its sessions prefetch.

    Args:
      scaffold, master, checkpoint_dir, checkpoint_filename_with_path: As for
        `tf.train.ChiefSessionCreator`.
      config: A `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.

    Raises:
      tf.errors.InvalidArgumentError: An option of the config is missing or out of range.

    Example:
      >>> creator = graph_opt.train.ChiefSessionCreator(config=config, checkpoint_dir="model")
      >>> with tf.train.MonitoredSession(creator) as session:
      ...     session.run(train_op)
    """

    def __init__(
        self,
        scaffold: Any = None,
        master: str = "",
        config: Optional[SessionConfig] = None,
        checkpoint_dir: Optional[str] = None,
        checkpoint_filename_with_path: Optional[str] = None,
    ) -> None:
        super().__init__(
            scaffold=scaffold,
            master=master,
            config=self._asked_for(config, master),
            checkpoint_dir=checkpoint_dir,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )


class WorkerSessionCreator(_OptimizingCreator, tf.train.WorkerSessionCreator):
    """A `tf.train.WorkerSessionCreator` that optimizes the graph; its sessions prefetch.

    Args:
      scaffold, master, max_wait_secs: As for `tf.train.WorkerSessionCreator`.
      config: A `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.

    Raises:
      tf.errors.InvalidArgumentError: An option of the config is missing or out of range.

    Example:
      >>> creator = graph_opt.train.WorkerSessionCreator(master=server.target, config=config)
      >>> with tf.train.MonitoredSession(creator) as session:
      ...     session.run(train_op)
    """

    def __init__(
        self,
        scaffold: Any = None,
        master: str = "",
        config: Optional[SessionConfig] = None,
        max_wait_secs: int = 30 * 60,
    ) -> None:
        super().__init__(
            scaffold=scaffold,
            master=master,
            config=self._asked_for(config, master),
            max_wait_secs=max_wait_secs,
        )
        watch_looks(self, READY_SECONDS, ChiefWait(self._wanted, self._wanted_target).not_ready)


class MonitoredSession(tf.train.MonitoredSession):
    """A `tf.train.MonitoredSession` that prefetches, with one of our creators or TensorFlow's.

    Args:
      session_creator, hooks, stop_grace_period_secs: As for `tf.train.MonitoredSession`. The
        config is taken from the session creator.

    Example:
      >>> creator = tf.train.ChiefSessionCreator(config=config)
      >>> with graph_opt.train.MonitoredSession(creator) as session:
      ...     session.run(train_op)
    """

    def __init__(
        self,
        session_creator: Any = None,
        hooks: Optional[Sequence[Any]] = None,
        stop_grace_period_secs: int = 120,
    ) -> None:
        config = creator_config(session_creator)
        super().__init__(
            session_creator=session_creator,
            hooks=with_async_hook(hooks, config, creator_master(session_creator)),
            stop_grace_period_secs=stop_grace_period_secs,
        )


class SingularMonitoredSession(tf.train.SingularMonitoredSession):
    """A `tf.train.SingularMonitoredSession` that prefetches.

    Args:
      hooks, scaffold, master: As for `tf.train.SingularMonitoredSession`.
      checkpoint_dir, stop_grace_period_secs: As there.
      checkpoint_filename_with_path: As there.
      config: A `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.

    Example:
      >>> with graph_opt.train.SingularMonitoredSession(config=config) as session:
      ...     while not session.should_stop():
      ...         session.run(train_op)
    """

    def __init__(
        self,
        hooks: Optional[Sequence[Any]] = None,
        scaffold: Any = None,
        master: str = "",
        config: Optional[SessionConfig] = None,
        checkpoint_dir: Optional[str] = None,
        stop_grace_period_secs: int = 120,
        checkpoint_filename_with_path: Optional[str] = None,
    ) -> None:
        wanted = _checked_config(config, master)
        super().__init__(
            hooks=with_async_hook(hooks, wanted, master),
            scaffold=scaffold,
            master=master,
            config=_stock_config(wanted, master),
            checkpoint_dir=checkpoint_dir,
            stop_grace_period_secs=stop_grace_period_secs,
            checkpoint_filename_with_path=checkpoint_filename_with_path,
        )


# Made on import, because `install` replaces TensorFlow's name with the function below.
_training_session = training_session_of(ChiefSessionCreator, WorkerSessionCreator)


def MonitoredTrainingSession(  # noqa: N802 - TensorFlow's name
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Optional[str] = None,
    scaffold: Any = None,
    hooks: Optional[Sequence[Any]] = None,
    chief_only_hooks: Optional[Sequence[Any]] = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Optional[SessionConfig] = None,
    stop_grace_period_secs: int = 120,
    log_step_count_steps: Optional[int] = 100,
    max_wait_secs: Optional[int] = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: Optional[str] = None,
    save_graph_def: bool = True,
    save_incremental_checkpoint_secs: Optional[float] = None,
    saving_listeners: Optional[Sequence[Any]] = None,
    target_nodes_or_tensors: Any = None,
) -> MonitoredSession:
    """`tf.train.MonitoredTrainingSession` with the lookups of the training graph prefetched.

    In a strategy's scope, all ranks call it alike: rank 0 restores and writes, and the others start
    with its values.

    Args:
      master: The target to connect to.
      is_chief: Whether this process initializes, restores and saves the model.
      checkpoint_dir: Where checkpoints are restored from and saved.
      scaffold: A `tf.train.Scaffold`.
      hooks: `SessionRunHook` objects; a prefetch hook may be among them but is not needed.
      chief_only_hooks: Hooks used only if `is_chief`.
      save_checkpoint_secs: Seconds between checkpoints; 600 if no such argument is given.
      save_summaries_steps: Steps between summaries; 100 if no such argument is given.
      save_summaries_secs: Seconds between summaries.
      config: A `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.
      stop_grace_period_secs: Seconds that threads may take to end; prefetch threads need none.
      log_step_count_steps: Steps between logs of steps per second.
      max_wait_secs: Seconds that a worker waits for its chief.
      save_checkpoint_steps: Steps between checkpoints.
      summary_dir: Where summaries are written; `checkpoint_dir` if None.
      save_graph_def: Whether the graph is written beside the checkpoints.
      save_incremental_checkpoint_secs: Seconds between incremental checkpoints, which have what has
        changed since the last full one (`IncrementalCheckpointHook`); None for none.
      saving_listeners: `CheckpointSaverListener` objects.
      target_nodes_or_tensors: Without effect, which a line says: what runs ahead ends where the
        lookups do.

    Returns:
      A monitored session, for the chief or for a worker.

    Raises:
      tf.errors.InvalidArgumentError: An option of the config is missing or out of range, or the
        pass refuses the graph.
      tf.errors.FailedPreconditionError: A session has already run the graph.
      RuntimeError: The graph is finalized, as in TensorFlow.

    Example:
      >>> with graph_opt.train.MonitoredTrainingSession(config=config, hooks=hooks) as session:
      ...     while not session.should_stop():
      ...         session.run(train_op)
    """
    wanted = _checked_config(config, master)
    if target_nodes_or_tensors is not None:
        warn_once(
            "MonitoredTrainingSession: target_nodes_or_tensors has no effect: what runs ahead ends "
            "where the lookups do, or at the nodes of tf.train.mark_target_node"
        )
    hooks = with_first_values(hooks or (), tf.get_default_graph())
    if not is_writer(tf.get_default_graph()):
        is_chief, checkpoint_dir, summary_dir, chief_only_hooks = True, None, None, None
    if save_incremental_checkpoint_secs and is_chief and checkpoint_dir:
        scaffold = scaffold or tf.train.Scaffold()
        increments = IncrementalCheckpointHook(
            checkpoint_dir, save_incremental_checkpoint_secs, scaffold
        )
        hooks = [*(hooks or ()), increments]
    if saving_listeners and is_chief and checkpoint_dir:
        scaffold = scaffold or tf.train.Scaffold()
        every = (save_checkpoint_secs, save_checkpoint_steps)
        saves = _checkpoint_hook(checkpoint_dir, scaffold, saving_listeners, *every)
        chief_only_hooks = [*(chief_only_hooks or ()), *saves]
        save_checkpoint_secs = save_checkpoint_steps = None
    session = _training_session(
        master=master,
        is_chief=is_chief,
        checkpoint_dir=checkpoint_dir,
        scaffold=scaffold,
        hooks=with_async_hook(hooks, wanted, master, chief_only_hooks),
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        save_summaries_secs=save_summaries_secs,
        config=config,
        stop_grace_period_secs=stop_grace_period_secs,
        log_step_count_steps=log_step_count_steps,
        max_wait_secs=max_wait_secs,
        save_checkpoint_steps=save_checkpoint_steps,
        summary_dir=summary_dir,
        # TensorFlow 1 has no such argument.
        **({} if save_graph_def else {"save_graph_def": False}),
    )
    return adopt(session, MonitoredSession)


def _checkpoint_hook(
    folder: str, scaffold: Any, listeners: Sequence[Any], secs: Any, steps: Any
) -> List[Any]:
    """What TensorFlow's function would write checkpoints with, but with listeners."""
    if (secs, steps) == (USE_DEFAULT, USE_DEFAULT):
        secs, steps = 600, None
    secs, steps = (None if one == USE_DEFAULT else one for one in (secs, steps))
    if not secs and not steps:
        return []
    return [
        tf.train.CheckpointSaverHook(
            folder, save_secs=secs, save_steps=steps, scaffold=scaffold, listeners=list(listeners)
        )
    ]


def _checked_config(config: Optional[SessionConfig], master: Optional[str]) -> Any:
    effective = effective_config(config)
    if effective is not None:
        checked_options(effective, master or "")
    return effective


def _stock_config(config: Optional[SessionConfig], master: Optional[str]) -> Any:
    return None if config is None else to_stock(config, master or "")
