"""What it costs to hand 30 tensors through the buffer, against TensorFlow's own queue.

    stock   constants ─ FIFOQueue.enqueue (QueueRunner's threads) ─► dequeue ─► step
    async   constants ─ TensorBufferPut (graph_opt's threads)     ─► take    ─► step

The tensors are constants, so that a step is nothing but the hand-over. Both sides run in stock
sessions, with as many threads and as many elements in the buffer.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.turns import in_turns, ratios, seconds_per_call

TENSORS = 30
BATCH = 512
WORKLOAD = "30_tensors"
GOAL = Goal(">=", 1.0)
_END_SECONDS = 10.0


class Setting(NamedTuple):
    """Threads that fill the buffer, and elements it holds."""

    threads: int
    capacity: int


class Effort(NamedTuple):
    """How long is measured: rounds, and seconds of each turn."""

    rounds: int
    seconds: float


SETTINGS = (Setting(threads=1, capacity=2), Setting(threads=4, capacity=8))
FULL = Effort(rounds=7, seconds=0.8)
QUICK = Effort(rounds=2, seconds=0.02)


def run(quick: bool = False) -> Outcome:
    """Measures every setting; `quick` only tries that it works."""
    effort = QUICK if quick else FULL
    records: List[Record] = []
    for setting in SETTINGS:
        records.extend(_measured(setting, effort))
    return Outcome(tuple(records))


def _measured(setting: Setting, effort: Effort) -> List[Record]:
    with _queue_step(setting) as stock, _buffer_step(setting) as ours:
        runs = in_turns(
            {
                "stock": lambda: _elements_per_s(stock, setting, effort),
                "async": lambda: _elements_per_s(ours, setting, effort),
            },
            effort.rounds,
        )
    params: Dict[str, Any] = {"batch": BATCH, **setting._asdict()}
    records = [
        from_runs("elements_per_s", WORKLOAD, mode, params, rates, "1/s")
        for mode, rates in runs.items()
    ]
    quotients = ratios(runs["async"], runs["stock"])
    records.append(
        from_runs("ratio_to_fifo_queue", WORKLOAD, "async", params, quotients, goal=GOAL)
    )
    return records


def _elements_per_s(step: Callable[[], object], setting: Setting, effort: Effort) -> float:
    return 1.0 / seconds_per_call(step, effort.seconds, burn_in=10 * setting.capacity)


def _tensors() -> List[tf.Tensor]:
    """What a batch of lookups hands over: ids, pooled rows and dense features, ten of each."""
    random = np.random.RandomState(7)
    kinds = (
        lambda: random.randint(0, 100000, BATCH).astype(np.int64),
        lambda: random.rand(BATCH, 16).astype(np.float32),
        lambda: random.rand(BATCH, 1).astype(np.float32),
    )
    return [tf.constant(kinds[number % len(kinds)]()) for number in range(TENSORS)]


@contextlib.contextmanager
def _queue_step(setting: Setting) -> Iterator[Callable[[], object]]:
    with tf.Graph().as_default():
        tensors = _tensors()
        dtypes = [tensor.dtype for tensor in tensors]
        queue = tf.FIFOQueue(setting.capacity, dtypes, [tensor.shape for tensor in tensors])
        enqueue = queue.enqueue(tensors)
        take = tf.group(*queue.dequeue())
        runner = tf.train.QueueRunner(queue, [enqueue] * setting.threads)
        with tf.Session() as session:
            coordinator = tf.train.Coordinator()
            threads = runner.create_threads(session, coordinator, start=True)
            yield session.make_callable(take)
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=_END_SECONDS)


@contextlib.contextmanager
def _buffer_step(setting: Setting) -> Iterator[Callable[[], object]]:
    with tf.Graph().as_default():
        taken = graph_opt.staged(_tensors(), capacity=setting.capacity, num_threads=setting.threads)
        take = tf.group(*taken)
        hook = graph_opt.make_prefetch_hook()
        hook.begin()
        with tf.Session() as session:
            coordinator = tf.train.Coordinator()
            hook.after_create_session(session, coordinator)
            yield session.make_callable(take)
            hook.end(session)
            coordinator.request_stop()
            coordinator.join(stop_grace_period_secs=_END_SECONDS)
