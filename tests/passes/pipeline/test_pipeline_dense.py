"""Why there is nothing to pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.passes.optimize import optimize_graph_def
from tests.passes.pipeline.delayed_training import pipelining


@pytest.mark.parametrize(
    "servers, worker, reason",
    [
        (1, "/job:worker", "is on '/job:worker', which names a job and no task"),
        (0, "/job:worker/task:0", "no training step reads and updates variables on another task"),
    ],
)
def test_a_worker_without_a_task_is_told_from_one_without_servers(
    fresh_graph: Any, servers: int, worker: str, reason: str
) -> None:
    with tf.device(tf.train.replica_device_setter(servers, worker_device=worker)):
        weight = tf.get_variable("weight", [3, 1])
        loss = tf.reduce_sum(tf.square(tf.matmul(tf.ones([2, 3]), weight)))
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    (left,) = optimize_graph_def(fresh_graph.as_graph_def(), pipelining()).report.left_alone
    assert left.startswith("pipeline_dense: nothing to pipeline: ") and reason in left
