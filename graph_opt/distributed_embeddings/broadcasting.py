"""A callback of Keras and a hook of sessions that start all ranks with the values of one."""

from __future__ import annotations

from typing import Any, List, Optional

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.data_parallel import broadcast_variables


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks the model of one before training, and its optimizer after the first batch.

    Parts of sharded tables and their slots stay. Optimizers may only have variables after a batch;
    models that are built with it get their values then, too.

    Args:
      root_rank: The rank whose values the others take.
      device: Accepted and not needed.

    Example:
      >>> model.fit(dataset, callbacks=[BroadcastGlobalVariablesCallback(0)])
    """

    _supports_tf_logs = True

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self._root_rank = root_rank
        self._is_done = False

    def on_train_begin(self, logs: Any = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        if not self._is_done and self.model.built:
            self._broadcast(self.model.variables)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """See `tf.keras.callbacks.Callback`."""
        if not self._is_done:
            self._is_done = True
            self._broadcast(self.model.variables + _variables_of(self.model.optimizer))

    def _broadcast(self, variables: List[Any]) -> None:
        # The optimizer's are among the model's in some releases of Keras.
        once = list({id(one): one for one in variables}.values())
        if tf.executing_eagerly():
            broadcast_variables(once, self._root_rank)
            return
        session = tf.keras.backend.get_session()
        with session.graph.as_default():
            session.run(broadcast_variables(once, self._root_rank))


class BroadcastGlobalVariablesHook(tf.train.SessionRunHook):
    """Gives all ranks the global variables of one when a session starts.

    Parts of sharded tables and their slots stay.

    Args:
      root_rank: The rank whose values the others take.
      device: Accepted and not needed.

    Example:
      >>> hooks = [BroadcastGlobalVariablesHook(0)]
      >>> with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
      ...     session.run(train_op)
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        self._root_rank = root_rank
        self._graph: Optional[Any] = None
        self._op: Optional[Any] = None

    def begin(self) -> None:
        """See `tf.train.SessionRunHook`."""
        if self._graph is not tf.get_default_graph():
            self._graph = tf.get_default_graph()
            self._op = broadcast_variables(tf.global_variables(), self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See `tf.train.SessionRunHook`."""
        session.run(self._op)


def _variables_of(optimizer: Any) -> List[Any]:
    variables = getattr(optimizer, "variables", [])
    return list(variables() if callable(variables) else variables)
