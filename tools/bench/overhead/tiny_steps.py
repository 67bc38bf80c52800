"""A step so small that what a session adds to it shows."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any, Callable, Iterator, NamedTuple

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.sessions import ASYNC, STOCK, Prefetching, session_config
from tools.bench.turns import in_turns, ratios

WORKLOAD = "two ids"
NONE = "none"
ROUNDS = 15
STEPS = 1000
# 0.1 ms where a step of TensorFlow's own takes 0.093.
GOAL = Goal("<=", 1.075)
_WARM_UP = 600  # A session notes within 500 steps whether running ahead pays.


class Times(NamedTuple):
    """Milliseconds of a step, and of the CPU time of the thread that runs it."""

    step: float
    caller: float


def measure(quick: bool) -> Outcome:
    """Measures sessions that are open side by side, in turns."""
    steps = 10 if quick else STEPS
    with contextlib.ExitStack() as stack:
        contestants = {
            mode: functools.partial(_times, stack.enter_context(_open(mode, quick)), steps)
            for mode in (STOCK, NONE, ASYNC)
        }
        runs = in_turns(contestants, 2 if quick else ROUNDS, swaps=True)
    steps_ms = {mode: [times.step for times in each] for mode, each in runs.items()}
    records = [_record("step_ms", mode, each) for mode, each in steps_ms.items()]
    records += [
        _record("caller_cpu_ms", mode, [times.caller for times in each])
        for mode, each in runs.items()
    ]
    records += [
        from_runs(
            "ratio_to_stock", WORKLOAD, mode, {}, ratios(steps_ms[mode], steps_ms[STOCK]), "", goal
        )
        for mode, goal in ((NONE, None), (ASYNC, GOAL))
    ]
    return Outcome(tuple(records))


def _record(figure: str, mode: str, runs: Any) -> Record:
    return from_runs(figure, WORKLOAD, mode, {}, runs, "ms")


@contextlib.contextmanager
def _open(mode: str, quick: bool) -> Iterator[Callable[[], Any]]:
    with tf.Graph().as_default() as graph:
        train_op, start = _model(), tf.global_variables_initializer()
    with _session(mode, graph) as session:
        session.run(start)
        step = functools.partial(session.run, train_op)
        for _ in range(1 if quick else _WARM_UP):
            step()
        yield step


def _session(mode: str, graph: tf.Graph) -> Any:
    if mode == STOCK:
        return tf.Session(graph=graph)
    if mode == NONE:
        return graph_opt.Session(graph=graph)
    config = session_config(mode, Prefetching(threads_num=1, capacity=2))
    options = config.graph_options.optimizer_options.async_embedding_options
    options.infer_io_stage = True
    return graph_opt.Session(graph=graph, config=config)


def _model() -> tf.Operation:
    ids = tf.data.Dataset.from_tensors(tf.constant([1, 2], tf.int64)).repeat()
    rows = tf.nn.embedding_lookup(
        tf.get_variable("table", [100, 4]), tf.data.make_one_shot_iterator(ids).get_next()
    )
    loss = tf.reduce_mean(tf.matmul(rows, tf.get_variable("kernel", [4, 1])))
    return tf.train.GradientDescentOptimizer(0.01).minimize(loss)


def _times(step: Callable[[], Any], steps: int) -> Times:
    step()
    start, cpu = time.perf_counter(), time.thread_time()
    for _ in range(steps):
        step()
    caller = time.thread_time() - cpu
    seconds = time.perf_counter() - start
    return Times(1e3 * seconds / steps, 1e3 * caller / steps)
