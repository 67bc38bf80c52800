"""`graph_opt.Session`: a `tf.Session` that prefetches.

- First run: the graph is optimized if the config asks for it.
- First run that takes a batch: the threads of the stages that supply it start.
- Run of an iterator's initializer: the threads of its stages end and their batches are dropped;
  the next run that takes a batch restarts them on the new input.
- `close`, the end of a `with` block, or no reference left: all threads end.
"""

from __future__ import annotations

from typing import Any, Dict

from graph_opt.compat import tf
from graph_opt.compat.sessions import adopt
from graph_opt.compat.unwatched_sessions import is_watched
from graph_opt.reporting.report import Report
from graph_opt.session.optimization import asks_for_anything
from graph_opt.session.session_log import note_session
from graph_opt.session.staged_steps import StagedSteps

# Saved on import, because `install` replaces these names with our own classes.
_STOCK_SESSION = tf.Session
_STOCK_INTERACTIVE_SESSION = tf.InteractiveSession


class Session(StagedSteps, tf.Session):
    """A `tf.Session` whose embedding lookups are fused and run ahead, as its config asks.

    The graph is optimized at the first run, not when the session is created, because scripts often
    finish their graph in between; by the first run the model must be complete. Every tensor of the
    graph can be fetched by its own name, except those whose values exist only in the prefetch
    threads.

    Args:
      target: As for `tf.Session`.
      graph: As for `tf.Session`.
      config: A `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.

    Raises:
      tf.errors.InvalidArgumentError: An option of the config is missing or out of range; at the
        first run: the pass refuses the graph; at any run: a tensor that belongs to prefetch is
        fetched or fed.
      tf.errors.FailedPreconditionError: At the first run: the graph can no longer be edited.

    Example:
      >>> config = graph_opt.load_config("configs/async_embedding.pbtxt")
      >>> with graph_opt.Session(config=config) as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train_op)
    """


class InteractiveSession(StagedSteps, tf.InteractiveSession):
    """A `tf.InteractiveSession` that prefetches as `Session` does.

    Example:
      >>> session = graph_opt.InteractiveSession(config=config)
      >>> tf.global_variables_initializer().run()
    """


def take_over(session: Any, config: Any) -> None:
    """Makes a session of any class that was just opened prefetch.

    It remains the same object and keeps its class's name and methods.

    Args:
      session: An open session that has run nothing.
      config: Its extended config; None for none.
    """
    if isinstance(session, StagedSteps) or not is_watched(session):
        return
    try:
        adopt(session, _staged_class(type(session)))
    except TypeError as error:
        if asks_for_anything(config):
            note_session(session, Report(left_alone=("the session's class: {}".format(error),)))
        return
    session.set_up(config)


_staged_classes: Dict[type, type] = {
    _STOCK_SESSION: Session,
    _STOCK_INTERACTIVE_SESSION: InteractiveSession,
}


def _staged_class(opened: type) -> type:
    """A subclass of `opened`, under the same name, whose sessions prefetch."""
    if opened not in _staged_classes:
        described = {n: getattr(opened, n) for n in ("__module__", "__qualname__", "__doc__")}
        _staged_classes[opened] = type(opened.__name__, (StagedSteps, opened), described)
    return _staged_classes[opened]


def adopt_session(session: Any, config: Any, coordinator: Any = None) -> bool:
    """Turns a stock session that has run nothing but initializers into a `graph_opt.Session`.

    TensorFlow's session managers create `tf.Session` objects; this makes those of monitored
    sessions ours without replacing the object.

    Args:
      session: A session on a graph that has already been optimized, if it is to be.
      config: The session's extended config; None for none.
      coordinator: The coordinator that the prefetch threads report to.

    Returns:
      Whether it succeeded; an object that merely resembles a TensorFlow session is not changed.
    """
    if not isinstance(session, StagedSteps) and is_watched(session):
        take_over(session, config)
        session.map_names(session.graph)
    if not isinstance(session, StagedSteps):
        return False
    if coordinator is not None:
        session.stage_threads.coordinator = coordinator
    return True


def starts_stages(session: Any) -> bool:
    """Whether a session itself starts the stages from which its steps take."""
    return isinstance(session, StagedSteps)


def end_threads(session: Any) -> None:
    """Ends the prefetch threads of one of our sessions; any other has none."""
    failed = session.stage_threads.stop_all(session) if starts_stages(session) else None
    if failed is not None:
        raise failed
