"""Trainings whose best numbers of threads and batches differ, each with any setting.

source_bound   in one process; a batch takes 12 ms to parse, a step 4 ms
main_bound     in one process; a batch takes 1 ms to parse, a step 8 ms
bursts         in one process; each fifth batch takes 25 ms to parse, others 1 ms, a step 8 ms
server         `dlrm`, its lookups on a parameter server 1 ms away
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Iterator, NamedTuple

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.training.contenders import Setting, open_alone
from tools.bench.training.sessions import ASYNC, Prefetching, SessionOptions
from tools.bench.workloads.measured import WORKLOADS

Metrics = Callable[[], Dict[str, Dict[str, int]]]
_WIDTH, _COLUMNS, _BURST = 256, 40, 5
_CALIBRATED = 100


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
    """Lines that are parsed in the graph, on one core each batch, before a step that computes.

    Attributes:
        rows: lines of a batch.
        rows_of_burst: lines of each fifth one.
        products: how many matrix products a step computes.
    """

    rows: int
    rows_of_burst: int
    products: int

    @contextlib.contextmanager
    def open(self, size: Size) -> Iterator[Run]:
        """Opens it with a setting."""
        with tf.Graph().as_default() as graph:
            number = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2**40)).get_next()
            is_burst = tf.equal(tf.math.floormod(number, _BURST), 0)
            parsed = _parsed(tf.where(is_burst, self.rows_of_burst, self.rows))
            batch = graph_opt.staged(parsed, capacity=size.capacity, num_threads=size.threads)
            result = _products(batch, self.products)
        with tf.Session(graph=graph) as session:
            hook = graph_opt.make_prefetch_hook()
            hook.after_create_session(session)
            step = session.make_callable(result.op)
            yield Run(step, lambda: graph_opt.metrics(session), "staged")
            hook.end(session)


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
        with open_alone(setting, ASYNC) as contender:
            yield Run(contender.step, contender.counters, "async_embedding")


def case(name: str, quick: bool) -> Any:
    """The case of this name, as large as this machine makes it take as long as it should."""
    if name == "server":
        return ServerCase(1.0, quick)
    if quick:
        return LocalCase(20, 20, 2)
    row_seconds = _seconds_of(lambda: _parsed(tf.constant(_CALIBRATED))) / _CALIBRATED
    product_seconds = _seconds_of(lambda: _products(tf.ones([_COLUMNS]), _CALIBRATED)) / _CALIBRATED
    parse, burst, compute = (milliseconds / 1000.0 for milliseconds in _LOCAL[name])
    return LocalCase(
        max(1, round(parse / row_seconds)),
        max(1, round(burst / row_seconds)),
        max(1, round(compute / product_seconds)),
    )


_LOCAL = {
    "source_bound": (12.0, 12.0, 4.0),
    "main_bound": (1.0, 1.0, 8.0),
    "bursts": (1.0, 25.0, 8.0),
}
NAMES = (*_LOCAL, "server")


def _parsed(rows: Any) -> Any:
    """The sums [_COLUMNS] of so many lines."""
    line = ",".join(str(0.001 * column) for column in range(_COLUMNS))
    columns = tf.io.decode_csv(tf.fill([rows], line), [[0.0]] * _COLUMNS)
    return tf.stack([tf.reduce_mean(column) for column in columns])


def _products(batch: Any, count: int) -> Any:
    """Matrix products, one after the other, of a matrix that a batch is part of."""
    matrix = tf.ones([_WIDTH, _WIDTH]) / _WIDTH + tf.reduce_sum(batch) * 1e-9
    for _ in range(count):
        matrix = tf.matmul(matrix, matrix)
    return matrix


def _seconds_of(make: Callable[[], Any]) -> float:
    """The least time of a step: what disturbs it makes it longer."""
    with tf.Graph().as_default() as graph:
        result = make()
    # Otherwise constants would be computed beforehand.
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Session(graph=graph, config=config) as session:
        step = session.make_callable(result.op)
        times = []
        for _ in range(30):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
    return min(times)
