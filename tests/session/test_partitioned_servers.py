"""Tables in slices on several parameter servers: TensorFlow's numbers, whatever the slices are.

TensorFlow gives a table with fewer rows than slices slices without rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import to_stock
from tests.passes import fused_models as models
from tests.session.parameter_servers import free_addresses

pytestmark = pytest.mark.slow

SERVERS = 3
STEPS = 6
ROWS = (1, 2, 7, 23)  # of a table; the first ones have fewer than there are servers
Partitioner = Callable[..., Any]
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "frozen": lambda: tf.train.GradientDescentOptimizer(0.0),
}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with three parameter servers, on real sockets, all in this process."""
    addresses = free_addresses(SERVERS + 1)
    cluster = tf.train.ClusterSpec({"ps": addresses[:SERVERS], "worker": addresses[SERVERS:]})
    servers = [tf.train.Server(cluster, job_name="ps", task_index=i) for i in range(SERVERS)]
    worker = tf.train.Server(cluster, job_name="worker", task_index=0)
    yield worker.target
    del servers, worker


class Slices(NamedTuple):
    """How the variables of a model are divided.

    Attributes:
      partitioner: Of all variables; None leaves them whole.
      servers: Parameter servers that they are on.
      strategy: By which ids are divided, "mod" or "div".
      step: Batches contain multiples of this id alone, so that some slices get none.
    """

    partitioner: Optional[Partitioner]
    servers: int = SERVERS
    strategy: str = "mod"
    step: int = 1


class Model(NamedTuple):
    """What a script builds."""

    loss: Any
    train: Any
    variables: Dict[str, Any]


def build(slices: Slices, optimizer: Any, use_resource: bool) -> Model:
    """A model of a lookup in each of four tables, in the default graph."""
    setter = tf.train.replica_device_setter(slices.servers, worker_device="/job:worker/task:0")
    with tf.device(setter), tf.variable_scope("", partitioner=slices.partitioner):
        inputs = models.batches()
        pooled = [lookup(rows, inputs, slices, use_resource) for rows in ROWS]
        hidden = tf.concat(pooled + [inputs["dense"]], axis=1)
        weights = tf.get_variable(
            "dense", [int(hidden.shape[1]), 1], initializer=random_values(3), use_resource=False
        )
        logits = tf.matmul(hidden, tf.convert_to_tensor(weights))[:, 0]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=inputs["label"], logits=logits)
        loss = tf.reduce_mean(losses)
        train = optimizer.minimize(loss)
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    return Model(loss, train, variables)


def lookup(rows: int, inputs: Dict[str, Any], slices: Slices, use_resource: bool) -> Any:
    name = "table_{}".format(rows)
    table = tf.get_variable(
        name, [rows, 4], initializer=random_values(rows), use_resource=use_resource
    )
    ids = tf.math.floormod(inputs["more"] * slices.step, rows)
    how = dict(partition_strategy=slices.strategy)
    if rows == 7:
        return tf.reduce_sum(tf.nn.embedding_lookup(table, ids, **how), axis=1)
    sparse = tf.sparse.from_dense(ids + 1)
    sparse = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
    return tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean", **how)


def random_values(seed: int) -> Any:
    return tf.random_uniform_initializer(-1, 1, seed=seed)


def config(fused: bool, ahead: bool) -> Any:
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding, options.do_async_embedding = fused, ahead
    if ahead:
        options.async_embedding_options.threads_num = 2
        options.async_embedding_options.capacity = 2
        options.async_embedding_options.infer_io_stage = True
    return made


class Ran(NamedTuple):
    """Losses and variables of a training."""

    losses: List[float]
    values: Dict[str, np.ndarray]


def run(
    target: str,
    slices: Slices,
    optimizer: str,
    wanted: Any = None,
    use_resource: bool = False,
    restored: Optional[Path] = None,
    saved: Optional[Path] = None,
) -> Ran:
    """Trains a few steps, by TensorFlow alone if `wanted` is None."""
    tf.Session.reset(target)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        model = build(slices, OPTIMIZERS[optimizer](), use_resource)
        saver = tf.train.Saver(sharded=True)
        opened = tf.Session if wanted is None else graph_opt.Session
        with opened(target, config=wanted) as session:
            session.run(tf.global_variables_initializer())
            if restored is not None:
                saver.restore(session, str(restored))
            losses = [float(session.run([model.loss, model.train])[0]) for _ in range(STEPS)]
            if saved is not None:
                saver.save(session, str(saved), write_meta_graph=False)
            return Ran(losses, session.run(model.variables))


def check_same(found: Ran, expected: Ran) -> None:
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-5)
    assert set(found.values) == set(expected.values)
    for name, value in expected.values.items():
        np.testing.assert_allclose(found.values[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


SLICES = {
    "fixed": Slices(tf.fixed_size_partitioner(SERVERS)),
    "div": Slices(tf.fixed_size_partitioner(SERVERS), strategy="div"),
    "min_max": Slices(tf.min_max_variable_partitioner(SERVERS, min_slice_size=64)),
    "more slices than servers": Slices(tf.fixed_size_partitioner(5), servers=2),
    "slices without ids": Slices(tf.fixed_size_partitioner(SERVERS), step=SERVERS),
    "div, slices without ids": Slices(tf.fixed_size_partitioner(4), strategy="div", step=9),
}


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "momentum"])
@pytest.mark.parametrize("slices", SLICES.values(), ids=list(SLICES))
def test_slices_are_trained_as_by_tensorflow(
    target: str, slices: Slices, optimizer: str, use_resource: bool
) -> None:
    expected = run(target, slices, optimizer, use_resource=use_resource)
    check_same(run(target, slices, optimizer, config(True, False), use_resource), expected)
    report = graph_opt.report()
    assert report is not None
    outcome = "deferred" if optimizer == "adam" else "fused"
    assert [table.update for table in report.fused] == 4 * [outcome]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("slices", SLICES.values(), ids=list(SLICES))
def test_lookups_of_slices_run_ahead(target: str, slices: Slices, fused: bool) -> None:
    expected = run(target, slices, "frozen")
    found = run(target, slices, "frozen", config(fused, True))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-6 if fused else 0)
    report = graph_opt.report()
    assert report is not None and report.lookups == report.moved != ()


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
@pytest.mark.parametrize("by_us", [(True, True), (True, False), (False, True)])
def test_training_goes_on_with_another_number_of_servers(
    target: str, tmp_path: Path, servers: int, optimizer: str, by_us: Tuple[bool, bool]
) -> None:
    before = Slices(tf.fixed_size_partitioner(SERVERS))
    after = Slices(tf.fixed_size_partitioner(servers) if servers > 1 else None, servers)
    run(target, before, optimizer, saved=tmp_path / "stock")
    expected = run(target, after, optimizer, restored=tmp_path / "stock")
    ours = [config(True, False) if used else None for used in by_us]
    run(target, before, optimizer, ours[0], saved=tmp_path / "ours")
    check_same(run(target, after, optimizer, ours[1], restored=tmp_path / "ours"), expected)


@pytest.mark.parametrize("by_creator", [False, True])
def test_a_hook_of_the_script_has_the_servers_asked_for_our_ops(
    target: str, by_creator: bool
) -> None:
    wanted = config(True, False)
    hooks = [graph_opt.train.AsyncEmbeddingHook(wanted)]
    tf.Session.reset(target)
    with tf.Graph().as_default() as graph:
        model = build(SLICES["fixed"], OPTIMIZERS["adagrad"](), use_resource=False)
        if by_creator:
            creator = tf.train.ChiefSessionCreator(master=target, config=to_stock(wanted))
            opened = graph_opt.train.MonitoredSession(creator, hooks)
        else:
            opened = graph_opt.train.MonitoredTrainingSession(target, hooks=hooks, config=wanted)
        with opened as session:
            session.run(model.train)
        report = graph_opt.report(graph)
    assert report is not None and len(report.fused) == 4
