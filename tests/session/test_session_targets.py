"""What a session's target changes: pools of stages are for sessions without a server."""

from __future__ import annotations

import json
from typing import Any, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import to_stock
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given
from tests.release_features import needs_estimators
from tests.session.small_model import (
    async_config,
    dataset,
    initialize,
    model_on,
    report_on,
    run_to_end,
    scaffold_of,
    small_model,
    stock_losses,
)

KINDS = [
    "session",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("call", "monitored")),
    *(
        pytest.param(kind, marks=[pytest.mark.slow, needs_estimators])
        for kind in ("estimator", "hook")
    ),
]
Trained = Tuple[Any, List[float]]

_ON_SERVER = "use_stage_subgraph_thread_pool has no effect in a session on a server"
_WITHOUT_SERVER = "prefetch_priority has no effect with use_stage_subgraph_thread_pool"


@pytest.fixture(scope="module")
def server() -> Any:
    return tf.train.Server.create_local_server()


def pool_config() -> Any:
    """Fused lookups on a pool that has threads within an op, and a priority."""
    config = async_config()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    config.session_stage_subgraph_thread_pool.add().intra_op_threads_num = 4
    options.async_embedding_options.use_stage_subgraph_thread_pool = True
    options.async_embedding_options.prefetch_priority = 7
    return config


def trained(target: str, model: Any) -> Trained:
    with graph_opt.Session(target, config=pool_config()) as session:
        initialize(session, model)
        steps = run_to_end(session, [model.loss, model.train_op])
    return model.loss.graph, [loss for loss, _ in steps]


def by_session(target: str, device: str) -> Trained:
    with tf.device(device):
        model = small_model()
    return trained(target, model)


def by_call(target: str, device: str) -> Trained:
    with tf.device(device):
        model = small_model()
    graph_opt.optimize_graph(model.loss.graph, pool_config(), target)
    return trained(target, model)


def by_monitored(target: str, device: str) -> Trained:
    with tf.device(device):
        model = small_model()
    losses = []
    with graph_opt.train.MonitoredTrainingSession(
        master=target, config=pool_config(), scaffold=scaffold_of(model)
    ) as session:
        while not session.should_stop():
            losses.append(session.run([model.loss, model.train_op])[0])
    return model.loss.graph, losses


class _Losses(tf.train.SessionRunHook):
    def __init__(self) -> None:
        self.graph: Any = None
        self.losses: List[float] = []

    def begin(self) -> None:
        self.graph = tf.get_default_graph()

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self.graph.get_tensor_by_name("loss:0"))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.losses.append(run_values.results)


def estimator(device: str, config: Any = None) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        model = model_on(features, 0.0)
        return tf.estimator.EstimatorSpec(mode, loss=model.loss, train_op=model.train_op)

    run_config = tf.estimator.RunConfig(session_config=config, device_fn=lambda op: device)
    return tf.estimator.Estimator(model_fn, config=run_config)


def by_estimator(target: str, device: str) -> Trained:
    hook = _Losses()
    with graph_opt.install():
        estimator(device, pool_config()).train(dataset, hooks=[hook])
    return hook.graph, hook.losses


def by_hook(target: str, device: str) -> Trained:
    hook = _Losses()
    ours = graph_opt.train.AsyncEmbeddingHook(pool_config(), target)
    estimator(device, to_stock(pool_config(), target)).train(dataset, hooks=[hook, ours])
    return hook.graph, hook.losses


@pytest.mark.parametrize("on_server", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_only_sessions_without_a_server_have_pools(
    kind: str, on_server: bool, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_warnings()
    target = server.target if on_server else ""
    if on_server:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"session_master": target}))
    train = globals()["by_" + kind]
    task = "/job:{}/task:0".format(server.server_def.job_name)
    graph, losses = train(target, task if on_server else "")
    np.testing.assert_array_equal(losses, stock_losses())
    warning = _ON_SERVER if on_server else _WITHOUT_SERVER
    assert [warning in line for line in report_on(graph).warnings] == [True]
    assert [
        line for line in warnings_given() if "has no effect" in line and warning not in line
    ] == []
    pool, priority = (-1, 7) if on_server else (0, 0)
    nodes = [operation.node_def for operation in graph.get_operations()]
    puts = [node for node in nodes if node.attr["_stage_kind"].s == b"prefetch"]
    assert {put.attr["_stage_thread_pool"].i for put in puts} == {pool}
    (lookup,) = (node for node in nodes if "_stage_pool_threads" in node.attr)
    assert lookup.attr["_stage_pool_threads"].i == 4
    assert lookup.attr["_stage_pool_priority"].i == priority
