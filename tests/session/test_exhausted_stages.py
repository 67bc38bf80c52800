"""A step that takes from a stage whose input has ended fails without the session's servers."""

from __future__ import annotations

from typing import Any, Callable

import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session.parameter_servers import free_addresses, parameter_servers
from tests.session.small_model import BATCHES, async_config, initialize, small_model

Run = Callable[[Any, Any], Callable[[], Any]]


def plain(session: Any, train_op: Any) -> Callable[[], Any]:
    return lambda: session.run(train_op)


def compiled(session: Any, train_op: Any) -> Callable[[], Any]:
    return session.make_callable(train_op)


def wait_for_end(session: Any) -> None:
    """Returns when all batches were taken and no thread of a stage is left."""
    while True:
        stages = graph_opt.metrics(session).values()
        if all(stage["closed"] and not stage["size"] + stage["threads"] for stage in stages):
            return


@pytest.mark.parametrize("run", slow_but([plain, compiled], plain))
def test_the_end_of_input_is_told_without_servers(run: Run) -> None:
    ps, worker = free_addresses(2)
    tasks = {"ps": [ps], "worker": [worker]}
    with parameter_servers(tasks, has_ops=[False]) as (server,):
        target = tf.train.Server(tf.train.ClusterSpec(tasks), "worker", 0).target
        on_worker = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
        with tf.device(on_worker):
            model = small_model(learning_rate=0.1, epochs=1)
        with graph_opt.Session(target, config=async_config()) as session:
            initialize(session, model)
            step = run(session, model.train_op)
            for _ in range(BATCHES):
                step()
            wait_for_end(session)
            with server.stopped(), pytest.raises(tf.errors.OutOfRangeError):
                step()
            with pytest.raises(tf.errors.OutOfRangeError):
                step()
            session.run(model.iterator.initializer)
            step()
