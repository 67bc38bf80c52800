"""For what a step waits that takes long: which stages, and what their threads are doing."""

from __future__ import annotations

import queue
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.ops.late_threads import start_thread
from graph_opt.runtime import claims

_NO_STAGE = "it waits for no stage that runs ahead: TensorFlow has not returned from its call"
FOR_WORKERS = (
    "it waits for no stage that runs ahead, but may wait for gradients of other workers, as steps "
    "of tf.train.SyncReplicasOptimizer do; this is said once"
)
_TAKES = ("AccumulatorTakeGradient", "SparseAccumulatorTakeGradient")


class StageThreadsState(NamedTuple):
    """What the threads of a stage are doing.

    Attributes:
      stage: The stage's name.
      upstream: Names of the stages that it takes from.
      at_work: How many threads have not ended.
      seconds_in_step: How long the step of each of them has lasted that is in one.
      ended: Why they end, if they do: an error or the end of the input.
    """

    stage: str
    upstream: Tuple[str, ...]
    at_work: int
    seconds_in_step: Tuple[float, ...]
    ended: str


def wait_of_step(session: Any, seconds: float) -> str:
    """Says for which stages a step of main waits that has not ended.

    Args:
      session: An open session, not monitored.
      seconds: How long its buffers may take to answer.

    Returns:
      A clause that begins with "it waits"; `FOR_WORKERS` if it is not for a stage, and the graph
      collects the gradients of several workers.

    Example:
      >>> wait_of_step(session, seconds=3)
      "it waits for stage 'async_embedding' (0 of 2 batches; its thread has been in a step for 9 s)"
    """
    states: Dict[str, StageThreadsState] = {}
    buffers: Dict[str, Dict[str, int]] = {}
    for runner in claims.runners_of(session):
        if not runner.stopped:
            states.update({state.stage: state for state in runner.states()})
            buffers.update(_answers(runner, seconds))
    waited_for = [name for name in states if _is_waited_for(buffers.get(name))]
    if not waited_for:
        silent = sorted(set(states) - set(buffers))
        if silent:
            return _no_answer(silent, seconds)
        return FOR_WORKERS if _collects_gradients(session.graph) else _NO_STAGE
    upstream = {name for each in waited_for for name in states[each].upstream}
    next_ones = [name for name in waited_for if name not in upstream]  # main waits for these
    clauses = []
    while next_ones:
        clauses.append(" and ".join(_clause(states[name], buffers[name]) for name in next_ones))
        upstream = {name for each in next_ones for name in states[each].upstream}
        next_ones = [name for name in waited_for if name in upstream]
    return "it waits for " + ", which waits for ".join(clauses)


def _collects_gradients(graph: Any) -> bool:
    return any(operation.type.endswith(_TAKES) for operation in graph.get_operations())


def _answers(runner: Any, seconds: float) -> Dict[str, Dict[str, int]]:
    """The numbers of a runner's buffers, as far as they can be had in this time."""
    answers: queue.SimpleQueue[Dict[str, Dict[str, int]]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(runner.buffers())
        except (tf.errors.OpError, RuntimeError):  # The session is ending.
            answers.put({})

    start_thread(ask)
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return {}


def _is_waited_for(buffer: Optional[Dict[str, int]]) -> bool:
    return buffer is not None and buffer["size"] == 0 and buffer["pending_takes"] > 0


def _no_answer(stages: List[str], seconds: float) -> str:
    names = ", ".join("'{}'".format(name) for name in stages)
    return "the buffers of {} have not answered in {:g} s either".format(names, seconds)


def _clause(state: StageThreadsState, buffer: Dict[str, int]) -> str:
    return "stage '{}' ({} of {} batches; {})".format(
        state.stage, buffer["size"], buffer["capacity"], _threads(state)
    )


def _threads(state: StageThreadsState) -> str:
    if state.at_work == 0:
        return "its threads have ended: {}".format(state.ended or "no error is known")
    if state.ended:
        return "its threads are ending: {}".format(state.ended)
    if not state.seconds_in_step:
        return "its threads are between steps"
    threads = len(state.seconds_in_step)
    return "{} been in a step for {:.0f} s{}".format(
        "its thread has" if threads == 1 else "{} threads have".format(threads),
        max(state.seconds_in_step),
        "" if state.upstream else ", which reads the input",
    )
