"""Graphs that all ranks train alike, and what their sessions do because of that.

All ranks start with the values of rank 0, which may come from a checkpoint that only rank 0 has
restored. A `MonitoredTrainingSession` gets a hook, since other hooks read the global step before
the first step; any other session broadcasts them before its first step that trains. So sessions of
one rank that evaluate or predict send nothing. Rank 0 writes checkpoints and summaries.
"""

from __future__ import annotations

import weakref
from typing import Any, Iterable, List, MutableSet, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.live_graph import unfinalized
from graph_opt.compat.step_calls import run_steps_through
from graph_opt.graph.operations import operations_behind
from graph_opt.sharding.own_rows import without_own_rows
from graph_opt.sharding.transport import Transport

_SENT = (
    *(tf.bool, tf.float16, tf.bfloat16, tf.float32, tf.float64),
    *(tf.uint8, tf.int8, tf.int32, tf.int64),
)
_KEPT = "data_parallel"
_MAX_CACHED_STEPS = 512


class DataParallelGraph:
    """What is known of a graph.

    Attributes:
      transport: How to reach the other ranks; None if the graph is not trained on several.
      gradients: Operations that compute the gradients that are applied.
      averages: Operations that make averages over ranks of sums over them.
      started: Sessions that have the values of rank 0.
      untrained: What steps fetch that train nothing, by name.
    """

    def __init__(self) -> None:
        self.transport: Optional[Transport] = None
        self.gradients: Set[Any] = set()
        self.averages: Set[Any] = set()
        self.started: MutableSet[Any] = weakref.WeakSet()
        self.untrained: Set[Tuple[str, ...]] = set()


class FirstValuesHook(tf.train.SessionRunHook):
    """Gives the variables of all ranks the values of rank 0 when a monitored session starts.

    Args:
      graph: A graph that all ranks train alike.
    """

    def __init__(self, graph: Any) -> None:
        self._of_graph = _kept(graph)
        self._broadcast: Optional[tf.Operation] = None

    def begin(self) -> None:
        """Makes the op, for the variables that the model has by now."""
        if self._broadcast is None:
            self._broadcast = _broadcast(tf.global_variables(), self._of_graph)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it, before other hooks read the global step."""
        self._of_graph.started.add(raw_session(session))
        session.run(self._broadcast)


def note_data_parallel(graph: Any, transport: Transport, gradients: Iterable[Any]) -> None:
    """From now on, sessions know that all ranks train this graph alike.

    Args:
      graph: The graph.
      transport: How its ranks reach each other.
      gradients: Operations that compute gradients which are applied.
    """
    kept = _kept(graph)
    kept.transport = transport
    kept.gradients.update(gradients)
    run_steps_through(_run)


def averages_in(graph: Any) -> Set[Any]:
    """The operations of a graph that make averages of sums over ranks; for adding to."""
    averages: Set[Any] = _kept(graph).averages
    return averages


def with_first_values(hooks: Sequence[Any], graph: Any) -> List[Any]:
    """Hooks of a monitored training session, the first of which gives ranks equal values.

    Args:
      hooks: Given by the script.
      graph: Any graph; for those that are not trained on several ranks nothing is added.
    """
    evaluates = graph.get_collection(tf.GraphKeys.EVAL_STEP)
    if _kept(graph).transport is None or evaluates or any(map(_broadcasts, hooks)):
        return list(hooks)
    return [FirstValuesHook(graph), *hooks]


def is_writer(graph: Any) -> bool:
    """Whether monitored sessions of this rank write checkpoints and summaries of a graph."""
    transport = _kept(graph).transport
    return transport is None or transport.rank == 0


def _broadcasts(hook: Any) -> bool:
    return isinstance(hook, FirstValuesHook) or (
        type(hook).__name__ == "BroadcastGlobalVariablesHook"
    )


def give_first_values(session: Any, elements: Iterable[Any], feeds: Iterable[Any]) -> None:
    """Gives a session the values of rank 0, if it is about to run its first step that trains.

    Args:
      session: A `tf.Session`.
      elements: Tensors and operations that the step fetches.
      feeds: Tensors that it is fed.
    """
    kept = _kept(session.graph)
    if kept.transport is None or session in kept.started:
        return
    fetched = list(elements)
    names = tuple(one.name for one in fetched)
    if names in kept.untrained:
        return
    reached = operations_behind([getattr(one, "op", one) for one in fetched], feeds)
    if kept.gradients.isdisjoint(reached):
        if len(kept.untrained) >= _MAX_CACHED_STEPS:
            kept.untrained.clear()
        kept.untrained.add(names)
        return
    kept.started.add(session)
    with unfinalized(session.graph), session.graph.as_default():
        read = [one for one in tf.global_variables() if one.op in reached]
        broadcast = _broadcast(read, kept)
    session.run(broadcast)


def _run(session: Any, fetches: List[Any], targets: List[Any], feeds: List[Any], run: Any) -> Any:
    """Runs a step of any session."""
    give_first_values(session, [*fetches, *targets], feeds)
    return run()


def _broadcast(variables: Iterable[Any], kept: DataParallelGraph) -> tf.Operation:
    """An op that gives variables the values of rank 0."""
    transport = kept.transport
    assert transport is not None
    assigned = []
    with tf.name_scope("first_values"), tf.device(None):
        for one in without_own_rows(variables):
            if tf.as_dtype(one.dtype).base_dtype in _SENT:
                base = "first_value_" + one.name.split(":")[0].replace("/", "_")
                value = transport.broadcast(one, 0, transport.message_name(base))
                assigned.append(tf.assign(one, value).op)
        return tf.group(*assigned)


def _kept(graph: Any) -> DataParallelGraph:
    return kept_with(graph, _KEPT, DataParallelGraph)
