from __future__ import annotations

import contextlib
import ctypes
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.ops.masters import cancel_unsent_calls
from graph_opt.ops.request_numbers import number_requests
from tests.conftest import MadeOnce
from tests.ops.compiled_functors import HERE, OPS_SRC, QUICK, compile_all, link
from tests.session.parameter_servers import free_addresses, parameter_servers

DELAY_MILLIS = 100  # A step fails sooner, where it has nothing to read.
PATIENCE_SECONDS = 60


@contextlib.contextmanager
def late_requests(compiled_once: MadeOnce) -> Iterator[None]:
    """Within, the master takes its time before it asks each task of a step."""

    def make(folder: Path) -> None:
        sources = [HERE / "late_requests.cc", OPS_SRC / "requests" / "imported_function.cc"]
        compile_all(compiled_once, sources, QUICK, folder)
        link(folder.glob("*.o"), [*QUICK, "-shared"], folder / "late_requests.so")

    library = ctypes.CDLL(str(compiled_once("late_requests", make) / "late_requests.so"))
    assert library.delay_requests(DELAY_MILLIS) == 1
    try:
        yield
    finally:
        library.delay_requests(0)


def outcome_of(call: Callable[[], Any]) -> Any:
    """The class of the error that a call raises; None if the call does not return."""
    outcomes: List[Any] = []

    def make_call() -> None:
        try:
            outcomes.append(call())
        except tf.errors.OpError as error:
            outcomes.append(type(error))

    thread = threading.Thread(target=make_call, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return outcomes[0] if outcomes else None


def asked_tasks(metadata: Any) -> List[str]:
    """The jobs of the tasks that ran a step, in the order in which the master asked them."""
    graphs = metadata.partition_graphs
    return [tf.DeviceSpec.from_string(graph.node[0].device).job for graph in graphs]


def test_functions_of_masters_are_replaced() -> None:
    assert number_requests()
    assert cancel_unsent_calls()


@pytest.mark.skipif(
    tf.version.VERSION.startswith("1."), reason="TensorFlow 1 does not import what this delays"
)
def test_a_step_ends_that_fails_before_all_tasks_are_asked(compiled_once: MadeOnce) -> None:
    ps, worker = free_addresses(2)
    addresses = {"ps": [ps], "worker": [worker]}
    with parameter_servers(addresses, has_ops=[False]), tf.Graph().as_default():
        target = tf.train.Server(tf.train.ClusterSpec(addresses), "worker", 0).target
        with tf.device("/job:ps/task:0"):
            tokens = tf.FIFOQueue(1, tf.float32, shapes=[[]])
            waits = tokens.dequeue()
        with tf.device("/job:worker/task:0"):
            batches = tf.FIFOQueue(1, tf.float32, shapes=[[]])
            reads = batches.dequeue()
        fetches = [waits, reads]
        with graph_opt.Session(target) as session:
            session.run([tokens.enqueue(2.0), batches.enqueue(3.0)])
            metadata = tf.RunMetadata()
            options = tf.RunOptions(output_partition_graphs=True)
            assert session.run(fetches, None, options, metadata) == [2.0, 3.0]
            assert asked_tasks(metadata) == ["worker", "ps"]
            session.run(batches.close())
            assert cancel_unsent_calls()
            with late_requests(compiled_once):
                outcome = outcome_of(lambda: session.run(fetches))
            assert outcome is tf.errors.OutOfRangeError
            # Only the step that failed is cancelled.
            session.run(tokens.enqueue(4.0))
            assert session.run(waits) == 4.0
