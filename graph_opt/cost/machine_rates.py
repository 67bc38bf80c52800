"""What ops, rows and calls cost on this machine, measured in a few seconds.

    python -m graph_opt.cost.machine_rates

Two servers of TensorFlow talk over the loopback, in a process of their own, as no server of
TensorFlow can be ended: each tensor between them is a call of gRPC, as between machines, but for
the distance.
"""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.reporting.cost import Rates

Watch = Callable[[int, int], None]

_SECONDS = 120
_NUMBERS = 5
_REPEATS = 9
_OPS = 2000
_CHAIN = 20
_PARALLEL = 200
_LINK_FLOATS = 8 << 20
_TABLE_ROWS = 1 << 21
_ROW_FLOATS = 16
_ROWS_READ = 1 << 17
_BYTES = 4
_PS, _WORKER = "/job:ps/task:0", "/job:worker/task:0"


def machine_rates(delay: float = 0.0, watch: Watch = lambda *_: None) -> Rates:
    """Measures; the machine should have nothing else to do.

    Args:
      delay: Seconds that a message takes to another task, however small it is.
      watch: Told how many numbers are measured, and of how many.

    Raises:
      tf.errors.InternalError: It cannot be measured here.
    """
    command = [sys.executable, "-m", "graph_opt.cost.machine_rates"]
    try:
        measured = _told_by(command, watch)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise tf.errors.InternalError(
            None, None, "--measure: {} gave no rates: {}".format(" ".join(command), error)
        ) from error
    measured["call_seconds"] += 2 * delay
    apart = " with servers {:g} ms away".format(delay * 1000.0) if delay else ""
    where = "this machine ({}){}".format(platform.node() or platform.machine(), apart)
    return Rates(where=where, **measured)


def _told_by(command: Sequence[str], watch: Watch) -> Dict[str, float]:
    """What a process measures, which prints a JSON object for each number."""
    measured: Dict[str, float] = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        limit = threading.Timer(_SECONDS, process.kill)
        limit.start()
        try:
            for line in process.stdout or ():
                measured.update(json.loads(line))
                watch(len(measured), _NUMBERS)
        finally:
            limit.cancel()
            process.kill()
    if len(measured) < _NUMBERS:
        raise ValueError("it ended early, or took more than {} seconds".format(_SECONDS))
    return measured


def _measured() -> Iterator[Tuple[str, float]]:
    call = _seconds_of(_chain, _servers()) / (2 * _CHAIN)
    yield "call_seconds", call
    target = _SERVERS[-1].target
    yield "call_cpu_seconds", _seconds_of(_tensors, target) / _PARALLEL
    link = max(_seconds_of(_large_tensor, target) - call, 1e-9)
    yield "link_bytes_per_second", _LINK_FLOATS * _BYTES / link
    rows = _seconds_of(_rows, "")
    yield "memory_bytes_per_second", _ROWS_READ * _ROW_FLOATS * _BYTES / rows
    yield "op_seconds", _seconds_of(_ops, "") / _OPS


_SERVERS: List[Any] = []


def _servers() -> str:
    """Starts both; returns the target of sessions of the worker."""
    with ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in range(2)]
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        places = ["127.0.0.1:{}".format(holder.getsockname()[1]) for holder in holders]
    cluster = tf.train.ClusterSpec({"ps": places[:1], "worker": places[1:]})
    _SERVERS.append(tf.train.Server(cluster, "ps", 0))
    _SERVERS.append(tf.train.Server(cluster, "worker", 0))
    return str(_SERVERS[-1].target)


def _chain() -> Any:
    """A tensor that goes to the other task and back, again and again."""
    with tf.device(_WORKER):
        tensor = tf.get_variable("chained", [1], initializer=tf.zeros_initializer()) + 1.0
    for _ in range(_CHAIN):
        for task in (_PS, _WORKER):
            with tf.device(task):
                tensor = tensor * 1.5
    return tensor.op


def _tensors() -> Any:
    """Many small tensors that are sent at once."""
    with tf.device(_PS):
        source = tf.get_variable("small", [1], initializer=tf.zeros_initializer())
        sent = [source * float(number) for number in range(1, _PARALLEL + 1)]
    with tf.device(_WORKER):
        return tf.group(*[tf.identity(tensor).op for tensor in sent])


def _large_tensor() -> Any:
    with tf.device(_PS):
        source = tf.get_variable("large", [_LINK_FLOATS], initializer=tf.zeros_initializer()) + 1.0
    with tf.device(_WORKER):
        return tf.identity(source).op


def _rows() -> Any:
    """Rows here and there of a table that no cache holds."""
    shape = [_TABLE_ROWS, _ROW_FLOATS]
    rows = tf.get_variable("rows", shape, initializer=tf.ones_initializer())
    places = np.random.RandomState(1).randint(0, _TABLE_ROWS, _ROWS_READ)
    numbers = tf.get_variable("numbers", initializer=places.astype(np.int64), trainable=False)
    return tf.gather(rows, numbers).op


def _ops() -> Any:
    """Small ops that wait for each other."""
    tensor = tf.get_variable("small_ops", [1], initializer=tf.zeros_initializer()) + 1.0
    for _ in range(_OPS):
        tensor = tensor * 1.5
    return tensor.op


def _seconds_of(build: Callable[[], Any], target: str) -> float:
    """The quickest of several runs of an op: what is slower waited for something else."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    with tf.Graph().as_default(), ExitStack() as stack:
        op = build()
        session = stack.enter_context(tf.Session(target, config=config))
        session.run(tf.global_variables_initializer())
        quickest = float("inf")
        for _ in range(_REPEATS):
            started = time.perf_counter()
            session.run(op)
            quickest = min(quickest, time.perf_counter() - started)
    return quickest


if __name__ == "__main__":
    tf.disable_v2_behavior()
    for name, value in _measured():
        print(json.dumps({name: value}), flush=True)
