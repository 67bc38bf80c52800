"""What moves from the step to a stage of its own, and why nothing may."""

from __future__ import annotations

from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.passes.pipeline.pipelined_names import PipelinedNames
from tests.passes import models
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.pass_models import on_servers
from tests.passes.pipeline.delayed_training import pipelining
from tests.passes.transfers import dense_models

SHORT = {
    "/job:ps/task:": "ps",
    "/job:worker/task:": "worker",
    "/device:CPU:0": "",
    "pipeline_dense/": "P/",
    "gradients/": "g/",
    "GradientDescent/": "gd/",
    "tuple/control_dependency": "of",
    "TensorBuffer": "",
    "ResourceApplyGradientDescent": "Apply",
}


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


def pipelined(staleness: int = 1, step: bool = False) -> Passed:
    """A layer without a bias on a server, whose weights travel alone."""
    with tf.device(on_servers(1)):
        dense = models.features()["dense"]
        weights = tf.get_variable("w", [4, 1], use_resource=True)
        loss = tf.reduce_sum(tf.square(tf.matmul(dense, weights)))
        counter = tf.train.get_or_create_global_step() if step else None
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, counter)
    return ran_pass("pipeline_dense", pipelining(staleness, packs=False))


def drawn(passed: Passed) -> List[str]:
    """What changed, but for what only ends or watches a stage."""
    watching = ("Const(", "Placeholder", "Status", "Cancel", "Resume", "Close", "Size", "Metrics")
    found = passed.drawn(SHORT)
    return [line for line in found if not any(text in line for text in watching)]


def test_gradients_go_to_a_stage_that_updates_and_reads_again() -> None:
    assert drawn(pipelined()) == lines("""
        - MatMul = MatMul(IteratorGetNext, MatMul/ReadVariableOp) on worker0
        + MatMul = MatMul(IteratorGetNext, P/Take) on worker0
        - g/MatMul_grad/MatMul = MatMul(g/Square_grad/Mul_1, MatMul/ReadVariableOp) on worker0
        + g/MatMul_grad/MatMul = MatMul(g/Square_grad/Mul_1, P/Take) on worker0
        + P/g/Put = Put(gd/learning_rate, g/MatMul_grad/of_1) on worker0
        + P/g/Take = Take(^P/turn/Take) on worker0
        + P/turn/first/Put = Put(P/turn/token) on worker0
        + P/turn/Put = Put(P/turn/token, ^P/Put) on worker0
        + P/turn/Take = Take() on worker0
        + P/turn/at0 = Identity(P/g/Take) on ps0
        + P/gd/update_w/Apply = Apply(w, P/g/Take, P/g/Take:1, ^P/turn/at0) on ps0
        + P/first/Put = Put(MatMul/ReadVariableOp) on worker0
        + P/second/Put = Put(MatMul/ReadVariableOp, ^P/first/Put) on worker0
        + P/pull/MatMul/ReadVariableOp = ReadVariableOp(w, ^P/gd/update_w/Apply)
        + P/Put = Put(P/pull/MatMul/ReadVariableOp, ^P/gd/update_w/Apply) on worker0
        + P/Take = Take() on worker0
    """)


def test_the_report_tells_what_weights_miss() -> None:
    assert "weights miss 1 update" in pipelined().report.changes[-1]


def test_without_one_missed_only_one_is() -> None:
    passed = pipelined(staleness=0)
    assert not any("second" in line for line in drawn(passed))
    assert "weights miss no update of this worker" in passed.report.changes[-1]


def test_the_user_s_own_update_stays_for_steps_that_do_not_train() -> None:
    passed = pipelined()
    update = "GradientDescent/update_w/ResourceApplyGradientDescent"
    names = passed.name_map.part(PipelinedNames)
    assert names is not None and names.updates == {update}
    assert names.ends == {"GradientDescent": (names.push,)}
    before, after = (
        next(node for node in graph.node if node.name == update)
        for graph in (passed.change.before, passed.change.after)
    )
    assert before == after


def test_steps_are_counted_where_they_are_run() -> None:
    names = pipelined(step=True).name_map.part(PipelinedNames)
    assert names is not None
    assert list(names.counters) == ["global_step"]
    assert all(text.startswith("pipeline_dense/") for text in names.counts.values())


def test_nothing_moves_without_the_option() -> None:
    with tf.device(on_servers(1)):
        tf.train.AdagradOptimizer(0.1).minimize(dense_models.loss_of(resource=True))
    assert ran_pass("pipeline_dense", dense_models.packing()).is_idle
