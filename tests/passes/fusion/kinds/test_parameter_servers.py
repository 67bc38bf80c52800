"""Tables on parameter servers: same values, and one tensor per server and direction."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.optimizers.adam_async import AdamAsyncOptimizer
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.optimizer_models import STOCK
from tests.passes import fused_models as models
from tests.passes.fusion import dynamic_models
from tests.passes.fusion.test_fuse_group_embedding import every_api, two_safe
from tests.passes.fusion.test_totals_of_0 import assert_same, by_both_rules
from tests.passes.refused_models import ControlFlowV1
from tests.quick_cases import slow_but
from tests.release_features import reshape_gradient_reads_shape

SERVERS = 2


class Ran(NamedTuple):
    """A training run on servers, and the tensors that its last step received from other tasks."""

    trained: models.Trained
    received: List[str]


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with two parameter servers, on real sockets, all in this process."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(SERVERS + 1)]
        for each in sockets:
            each.bind(("localhost", 0))
        addresses = ["localhost:{}".format(each.getsockname()[1]) for each in sockets]
    cluster = tf.train.ClusterSpec({"ps": addresses[:SERVERS], "worker": addresses[SERVERS:]})
    servers = [tf.train.Server(cluster, job_name="ps", task_index=i) for i in range(SERVERS)]
    worker = tf.train.Server(cluster, job_name="worker", task_index=0)
    yield worker.target
    del servers, worker


def train(
    target: str,
    lookups: Any,
    optimizer: str = "adagrad",
    config: Any = None,
    servers: int = SERVERS,
    minimize: Any = None,
) -> Ran:
    setter = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        tf.set_random_seed(1)
        inputs = models.batches()
        loss = models.loss_of(lookups(inputs), inputs)
        made = STOCK[optimizer]()
        step = minimize(made, loss) if minimize else made.minimize(loss)
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        initialize = tf.global_variables_initializer()
        report = None if config is None else optimize_graph(graph, config, target)
        tf.Session.reset(target)
        opened = tf.Session(target) if config is None else Session(target, config=config)
        with opened as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(models.STEPS)]
            values = session.run(variables)
            received = received_by(session, [loss, step])
    return Ran(models.Trained(losses, values, report, graph), received)


def received_by(session: Any, fetches: List[Any]) -> List[str]:
    """Names of the tensors that cross between tasks in one step."""
    metadata = tf.RunMetadata()
    session.run(fetches, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return [
        node.attr["tensor_name"].s.decode()
        for part in metadata.partition_graphs
        for node in part.node
        if node.op == "_Recv"
    ]


@pytest.mark.parametrize(
    "optimizer, resource, shards",
    slow_but(
        [
            (name, *table)
            for name in ("adagrad", "adam", "momentum", "ftrl", "rms_prop_centered")
            for table in ((False, 1), (True, 3))
        ],
        *(("adam", False, 1), ("momentum", True, 3)),
    ),
)
def test_training_on_servers_is_the_same(
    target: str, optimizer: str, resource: bool, shards: int
) -> None:
    lookups = two_safe(resource, shards)
    fused = train(target, lookups, optimizer, models.config()).trained
    losses, values = models.difference(fused, train(target, lookups, optimizer).trained)
    assert losses < 1e-5 and values < 1e-5
    assert fused.report is not None
    update = "deferred" if optimizer == "adam" else "fused"
    assert [lookup.update for lookup in fused.report.fused] == [update, update]


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_a_server_updates_tables_with_powers_of_their_own_by_one_op(
    target: str, resource: bool
) -> None:
    def minimize(_: Any, loss: Any) -> Any:
        return AdamAsyncOptimizer(0.05).minimize(loss)

    lookups = two_safe(resource, 2)
    fused = train(target, lookups, config=models.config(), minimize=minimize).trained
    stock = train(target, lookups, minimize=minimize).trained
    losses, values = models.difference(fused, stock)
    assert losses < 1e-5 and values < 1e-5
    updates = [op for op in fused.graph.get_operations() if "ApplyPacked" in op.type]
    assert len(updates) == SERVERS


@pytest.mark.parametrize("shards", slow_but([1, 3], 3))
def test_weights_that_add_up_to_0_train_as_the_graph_divides(target: str, shards: int) -> None:
    lookups = by_both_rules(shards)
    fused = train(target, lookups, config=models.config()).trained
    assert_same(fused, train(target, lookups).trained)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_every_api_trains_the_same_on_servers(target: str, strategy: str) -> None:
    lookups = every_api(True, strategy, 2)
    fused = train(target, lookups, config=models.config()).trained
    losses, values = models.difference(fused, train(target, lookups).trained)
    assert losses < 1e-5 and values < 1e-5
    assert fused.report is not None and len(fused.report.fused) == 6


def many_tables(inputs: Dict[str, Any], count: int = 26) -> List[Any]:
    """A lookup in each of many tables, with ids of its own."""
    ids = [tf.math.floormod(inputs["more"] * (i + 1), models.VOCABULARY) for i in range(count)]
    return [
        tf.nn.safe_embedding_lookup_sparse(
            models.table("t{:02}".format(i)), tf.sparse.from_dense(each)
        )
        for i, each in enumerate(ids)
    ]


def nine_tables(inputs: Dict[str, Any]) -> List[Any]:
    return many_tables(inputs, 9)


def of_lookups(received: List[str]) -> List[str]:
    return [name for name in received if "embedding" in name and "Adagrad" not in name]


@pytest.mark.slow
def test_26_tables_on_one_server_take_three_transfers(target: str) -> None:
    stock = train(target, many_tables, servers=1)
    fused = train(target, many_tables, config=models.config(), servers=1)
    losses, values = models.difference(fused.trained, stock.trained)
    assert losses < 1e-5 and values < 1e-5
    assert len(of_lookups(stock.received)) == 3 * 26
    assert len(of_lookups(fused.received)) == 3
    assert requests_of_updates(fused.trained.graph) == [1]


def requests_of_updates(graph: tf.Graph) -> List[int]:
    """How many requests of lookups each update takes the bags from."""
    return [
        operation.get_attr("num_requests")
        for operation in graph.get_operations()
        if operation.type == "GroupEmbeddingPackGradients"
    ]


def swapped_with_one_between(inputs: Dict[str, Any]) -> List[Any]:
    """A lookup between two of one table, joined in another order than they were made in."""
    ids = [tf.sparse.from_dense(inputs[name]) for name in ("ids", "more", "more")]
    shared, other = models.table("shared"), models.table("other")
    safe = tf.nn.safe_embedding_lookup_sparse
    rows = [safe(table, each) for table, each in zip([shared, other, shared], ids)]
    return rows[1:] + rows[:1]


def test_lookups_in_another_order_than_tables_train_the_same(target: str) -> None:
    lookups = swapped_with_one_between
    fused = train(target, lookups, config=models.config()).trained
    losses, values = models.difference(fused, train(target, lookups).trained)
    assert losses < 1e-5 and values < 1e-5
    assert requests_of_updates(fused.graph) == [SERVERS]


def clipped_if_finite(optimizer: Any, loss: Any) -> Any:
    """Gradients clipped by their global norm, and not applied where that is not finite."""
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(gradients, 0.05)
    with ControlFlowV1():
        return tf.cond(
            tf.math.is_finite(norm),
            lambda: optimizer.apply_gradients(zip(clipped, variables)),
            tf.no_op,
        )


def test_clipped_gradients_of_all_tables_take_one_transfer(target: str) -> None:
    stock = train(target, nine_tables, servers=1, minimize=clipped_if_finite)
    config = models.config()
    fused = train(target, nine_tables, config=config, servers=1, minimize=clipped_if_finite)
    losses, values = models.difference(fused.trained, stock.trained)
    assert losses < 1e-5 and values < 1e-5
    assert fused.trained.report is not None
    assert {lookup.update for lookup in fused.trained.report.fused} == {"fused"}
    # Beside the update: ids and rows, the dense layer's weights and gradient, and the condition.
    assert len(fused.received) < 10 < 2 * 9 < len(stock.received)


def test_prefetched_lookups_on_servers_read_the_same_frozen_tables(target: str) -> None:
    losses = []
    for config in (None, models.config(prefetch=True)):
        setter = tf.train.replica_device_setter(SERVERS, worker_device="/job:worker/task:0")
        with tf.Graph().as_default() as graph, tf.device(setter):
            tf.set_random_seed(1)
            inputs = models.batches()
            loss = models.loss_of(two_safe(True)(inputs), inputs)
            initialize = tf.global_variables_initializer()
            if config is not None:
                report = optimize_graph(graph, config, target)
            tf.Session.reset(target)
            opened = tf.Session(target) if config is None else Session(target, config=config)
            with opened as session:
                session.run(initialize)
                losses.append([session.run(loss) for _ in range(models.STEPS)])
    np.testing.assert_array_equal(losses[0], losses[1])
    assert len(report.moved) == 1


def one_by_one(inputs: Dict[str, Any]) -> List[Any]:
    """A lookup without combiner, which TensorFlow places beside its table."""
    return [tf.nn.embedding_lookup(models.table("one"), inputs["one"])]


@pytest.mark.parametrize("lookups", [two_safe(), one_by_one])
def test_servers_that_were_not_asked_keep_their_lookups(lookups: Any) -> None:
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        inputs = models.batches()
        loss = models.loss_of(lookups(inputs), inputs)
        tf.train.AdagradOptimizer(0.1).minimize(loss)
        report = optimize_graph(graph, models.config())
    codes = {lookup.refusals[0]["code"] for lookup in report.fused_lookups}
    assert codes == {"server_without_ops"}


def train_dynamic(target: str, optimizer: str, config: Any, clip: bool) -> Dict[str, Any]:
    """Losses, the rows of all keys of all dynamic tables, their numbers, and the report."""
    setter = tf.train.replica_device_setter(SERVERS, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        inputs = models.batches()
        loss = models.loss_of(dynamic_models.every_api(inputs), inputs)
        step = dynamic_models.minimize(loss, optimizer, clip)
        # Without key 0, which TensorFlow's lookup makes a row for where a bag is empty.
        keys = tf.constant([-3, -2, -1, *range(1, models.VOCABULARY)], tf.int64)
        tables = dynamic_models.tables()
        rows = [table.rows_of_keys(keys, None, insert=False) for table in tables]
        initialize = tf.global_variables_initializer()
        report = None if config is None else optimize_graph(graph, config, target)
        tf.Session.reset(target)
        opened = tf.Session(target) if config is None else Session(target, config=config)
        with opened as session:
            session.run(initialize)
            losses = [session.run([loss, step])[0] for _ in range(models.STEPS)]
            names = [table.op.name for table in tables]
            values = dict(zip(names, session.run(rows)))
            received = received_by(session, [loss, step])
    return dict(losses=losses, rows=values, report=report, received=received)


@pytest.mark.parametrize(
    "optimizer, clip", slow_but([("adagrad", False), ("adam", True)], ("adam", True))
)
def test_dynamic_tables_on_servers_train_the_same(target: str, optimizer: str, clip: bool) -> None:
    stock = train_dynamic(target, optimizer, None, clip)
    fused = train_dynamic(target, optimizer, models.config(), clip)
    np.testing.assert_allclose(fused["losses"], stock["losses"], rtol=1e-5)
    for name, rows in stock["rows"].items():
        np.testing.assert_allclose(fused["rows"][name], rows, atol=1e-5, err_msg=name)
    lookups = fused["report"].fused
    # What Adam does to other rows of the static table is deferred.
    static = "deferred" if optimizer == "adam" else "fused"
    stays = clip and reshape_gradient_reads_shape()
    assert [lookup.update for lookup in lookups] == ["fused"] * (6 if stays else 7) + [static]
    assert len(fused["received"]) < len(stock["received"])
