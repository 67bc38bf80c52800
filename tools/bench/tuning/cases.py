"""Trainings whose best numbers of threads and batches differ, each with any setting.

source_bound   in one process; a batch takes 12 ms to read, a step 4 ms
main_bound     in one process; a batch takes 1 ms to read, a step 8 ms
bursts         in one process; each fifth batch takes 30 ms to read, a step 8 ms
server         `dlrm`, its lookups on a parameter server 1 ms away
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Iterator, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.cluster.loopback import start_cluster
from tools.bench.training.contenders import Setting, open_trainer
from tools.bench.training.sessions import ASYNC, Prefetching, SessionOptions
from tools.bench.workloads.measured import WORKLOADS
from tools.bench.workloads.workload import training_graph

Metrics = Callable[[], Dict[str, Dict[str, int]]]
_WIDTH = 256
_BURST = 5


class Run(NamedTuple):
    """An open training.

    Attributes:
        step: runs a step.
        metrics: reads the numbers of its buffers.
        stage: the stage whose setting is compared.
    """

    step: Callable[[], Any]
    metrics: Metrics
    stage: str


class Size(NamedTuple):
    """A number of threads and of batches held ready; -1: tuned."""

    threads: int
    capacity: int


class LocalCase(NamedTuple):
    """A source that waits, as one on a disk or a network does, before a step that computes.

    Attributes:
        read_ms: how long a batch takes to read.
        burst_ms: how long each fifth one takes; 0: as long as the others.
        compute_ms: how long a step computes.
    """

    read_ms: float
    burst_ms: float
    compute_ms: float

    @contextlib.contextmanager
    def open(self, size: Size) -> Iterator[Run]:
        """Opens it with a setting."""
        with tf.Graph().as_default() as graph:
            numbers = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2**40)).get_next()
            read = tf.py_func(self._read, [numbers], tf.float32)
            read.set_shape([_WIDTH, _WIDTH])
            batch = graph_opt.staged(read, capacity=size.capacity, num_threads=size.threads)
            result = _products(batch, _products_in(self.compute_ms))
        with tf.Session(graph=graph) as session:
            hook = graph_opt.make_prefetch_hook()
            hook.after_create_session(session)
            step = session.make_callable(result.op)
            yield Run(step, lambda: graph_opt.metrics(session), "staged")
            hook.end(session)

    def _read(self, number: Any) -> np.ndarray:
        in_burst = self.burst_ms and number % _BURST == 0
        time.sleep((self.burst_ms if in_burst else self.read_ms) / 1000.0)
        return np.full([_WIDTH, _WIDTH], 1.0 / _WIDTH, np.float32)


class ServerCase(NamedTuple):
    """`dlrm` with its variables on a parameter server.

    Attributes:
        delay_ms: latency each way.
        quick: tiny sizes.
    """

    delay_ms: float
    quick: bool

    @contextlib.contextmanager
    def open(self, size: Size) -> Iterator[Run]:
        """Opens it with a setting, and with a server of its own."""
        options = SessionOptions(prefetching=Prefetching(size.threads, size.capacity))
        workload = WORKLOADS["dlrm"](512, self.quick)
        setting = Setting(workload, session=options, servers=1, delay_ms=self.delay_ms)
        with start_cluster(1, self.delay_ms) as cluster:
            training = training_graph(workload, setting.learning, cluster)
            with open_trainer(setting, ASYNC, training, cluster) as contender:
                yield Run(contender.step, contender.counters, "async_embedding")


def case(name: str, quick: bool) -> Any:
    """The case of this name."""
    if name == "server":
        return ServerCase(1.0, quick)
    shorter = 0.1 if quick else 1.0
    return LocalCase(*(shorter * milliseconds for milliseconds in _LOCAL[name]))


_LOCAL = {
    "source_bound": (12.0, 0.0, 4.0),
    "main_bound": (1.0, 0.0, 8.0),
    "bursts": (1.0, 30.0, 8.0),
}
NAMES = (*_LOCAL, "server")


def _products(batch: Any, count: int) -> Any:
    for _ in range(count):
        batch = tf.matmul(batch, batch)
    return batch


def _products_in(milliseconds: float) -> int:
    """How many matrix products take so long here."""
    matrix = np.ones([_WIDTH, _WIDTH], np.float32)
    with tf.Graph().as_default() as graph:
        result = _products(tf.placeholder_with_default(matrix / _WIDTH, matrix.shape), 50)
    with tf.Session(graph=graph) as session:
        step = session.make_callable(result.op)
        step()
        start = time.perf_counter()
        for _ in range(5):
            step()
        each = (time.perf_counter() - start) / 250
    return max(1, round(milliseconds / 1000.0 / each))
