"""Private parts of TensorFlow's session creators, which open the sessions of monitored ones."""

from __future__ import annotations

import types
from typing import Any, Callable

from graph_opt.compat import tf


def creator_config(creator: Any) -> Any:
    """The ConfigProto that a session creator was made with, or None."""
    return getattr(creator, "_config", None)


def creator_scaffold(creator: Any) -> Any:
    """The `tf.train.Scaffold` of a session creator."""
    return creator._scaffold


def creator_master(creator: Any) -> str:
    """The target that a session creator connects to."""
    return getattr(creator, "_master", "") or ""


def watch_looks(creator: Any, seconds: float, not_ready: Callable[[], None]) -> None:
    """Sets how often a worker's creator looks whether the chief has initialized the variables.

    TensorFlow's session managers take the time as an argument (30 s), but creators do not pass it.

    Args:
      creator: A `tf.train.WorkerSessionCreator`.
      seconds: From one look to the next.
      not_ready: Called after each look that found them not to be; the wait ends with its error.
    """
    made = creator._get_session_manager

    def manager() -> Any:
        result = made()
        result._recovery_wait_secs = seconds
        for name in ("_model_ready", "_model_ready_for_local_init"):
            setattr(result, name, _noted(getattr(result, name), not_ready))
        return result

    creator._get_session_manager = manager


def _noted(look: Callable[[Any], Any], not_ready: Callable[[], None]) -> Callable[[Any], Any]:
    def looked(session: Any) -> Any:
        found = look(session)
        if not found[0]:
            try:
                not_ready()
            except BaseException:
                session.close()
                raise
        return found

    return looked


def training_session_of(chief: type, worker: type) -> Callable[..., Any]:
    """`tf.train.MonitoredTrainingSession` with other classes of session creators.

    The function takes no session creator, and its name for them is a global one of its module.

    Args:
      chief: A subclass of `tf.train.ChiefSessionCreator`.
      worker: One of `tf.train.WorkerSessionCreator`.
    """
    stock = tf.train.MonitoredTrainingSession
    names = dict(stock.__globals__, ChiefSessionCreator=chief, WorkerSessionCreator=worker)
    return types.FunctionType(
        stock.__code__, names, stock.__name__, stock.__defaults__, stock.__closure__
    )
