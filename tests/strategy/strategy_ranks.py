"""A program for each of 1, 2 or 4 ranks: scripts of DeepRec's documentation train and export.

Its argument is a folder that all ranks see. What one process with TensorFlow alone would have after
the same steps is computed by each rank for itself.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from graph_opt.sharding.transport import OneRank
from graph_opt.sharding.transport_in_use import communicating_through

STEPS, BATCH, ROWS, WIDTH = 100, 16, 50, 4
NAMES = "abcdef"
_random = np.random.RandomState(0)
IDS = {name: _random.randint(-(name == "a"), ROWS, [STEPS, BATCH, 3]) for name in NAMES}
WEIGHTS = _random.uniform(0.1, 1.0, [STEPS, BATCH, 3]).astype(np.float32)
LABELS = _random.uniform(size=[STEPS, BATCH]).astype(np.float32)
MODULE = "tensorflow.python.distribute.group_embedding_collective_strategy"


class Ways(NamedTuple):
    """How a script trains on several ranks."""

    scope: Callable[[], ContextManager[Any]]
    embedding_scope: Callable[[], ContextManager[Any]]
    optimizer: Callable[[Any], Any]
    in_conditionals: bool = False


ALONE = Ways(contextlib.nullcontext, contextlib.nullcontext, lambda optimizer: optimizer)


class Model:
    """Group lookups, columns in a group, and columns outside of one that share a table."""

    def __init__(self, ways: Ways, rank: int, size: int) -> None:
        self.own = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        self.ids = {name: tf.placeholder(tf.int64, [None, 3], name) for name in NAMES}
        self.weights = tf.placeholder(tf.float32, [None, 3])
        self.labels = tf.placeholder(tf.float32, [None])
        with ways.embedding_scope():
            features = [*self._grouped(), self._columns()]
        # Other values on each rank: all start with those of rank 0.
        kernel = tf.glorot_uniform_initializer(seed=4 + 10 * rank)
        scores = tf.layers.dense(tf.concat(features, 1), 1, kernel_initializer=kernel)[:, 0]
        self.errors = tf.square(scores - self.labels)
        self.loss = tf.reduce_mean(self.errors)
        optimizer = ways.optimizer(tf.train.AdagradOptimizer(0.1))
        self.train = optimizer.minimize(self.loss, tf.train.get_or_create_global_step())

    def trained(self, session: Any) -> np.ndarray:
        """The losses of all steps."""
        losses = []
        for step in range(STEPS):
            feed: Dict[Any, Any] = {self.ids[name]: IDS[name][step, self.own] for name in NAMES}
            feed[self.weights] = WEIGHTS[step, self.own]
            feed[self.labels] = LABELS[step, self.own]
            losses.append(session.run([self.train, self.loss], feed)[1])
        return np.array(losses)

    def _grouped(self) -> List[tf.Tensor]:
        tables = [
            tf.get_variable("table_{}".format(seed), [ROWS, WIDTH], initializer=_rows(seed))
            for seed in range(2)
        ]
        ids = [_bags(self.ids["a"]), _bags(self.ids["b"])]
        weights = tf.SparseTensor(
            ids[0].indices, tf.reshape(self.weights, [-1]), ids[0].dense_shape
        )
        pooled: List[tf.Tensor] = tf.nn.group_embedding_lookup_sparse(
            tables, ids, ["mean", "sum"], sp_weights=[weights, None]
        )
        return pooled

    def _columns(self) -> tf.Tensor:
        columns = tf.feature_column
        keys = {name: columns.categorical_column_with_identity(name, ROWS) for name in NAMES[2:]}
        with columns.group_embedding_column_scope(name="item"):
            grouped = [
                columns.embedding_column(keys[name], WIDTH, initializer=_rows(seed))
                for seed, name in ((2, "c"), (3, "d"))
            ]
        shared = columns.shared_embedding_columns(
            [keys["e"], keys["f"]], WIDTH, initializer=_rows(5)
        )
        features = {name: _bags(self.ids[name]) for name in keys}
        return columns.input_layer(features, grouped + shared)


def _rows(seed: int) -> Any:
    values = np.random.RandomState(seed).uniform(-0.1, 0.1, [ROWS, WIDTH])
    return tf.constant_initializer(values.astype(np.float32))


def _bags(ids: tf.Tensor) -> tf.SparseTensor:
    rows = tf.shape(ids, out_type=tf.int64)[0]
    positions = [tf.repeat(tf.range(rows), 3), tf.tile(tf.range(3, dtype=tf.int64), [rows])]
    return tf.SparseTensor(tf.stack(positions, 1), tf.reshape(ids, [-1]), [rows, 3])


def main() -> None:
    """Runs as one rank; an assertion that fails ends all."""
    folder = sys.argv[1]
    graph_opt.install(sok=True)
    strategy = importlib.import_module(MODULE).CollectiveStrategy()
    backend = importlib.import_module("hybridbackend.tensorflow")
    whole = _alone(strategy.rank, strategy.world_size)

    def wrapped(optimizer: Any, **options: Any) -> Any:
        return horovod().DistributedOptimizer(optimizer, **options)

    ways = {
        "scopes": Ways(strategy.scope, strategy.embedding_scope, ALONE.optimizer),
        "hybridbackend": Ways(backend.scope, backend.embedding_scope, ALONE.optimizer),
        "collective": ALONE,
    }
    if strategy.world_size > 1:
        ways["wrapped"] = ways["scopes"]._replace(optimizer=wrapped)
        ways["named"] = ways["scopes"]._replace(
            optimizer=lambda one: wrapped(one, name="Mine"), in_conditionals=True
        )
    for name, way in ways.items():
        if name == "named":
            tf.disable_control_flow_v2()
        chosen = "collective" if name == "collective" else "localized"
        tf.config.experimental.enable_distributed_strategy(chosen)
        _check(way, strategy, whole, os.path.join(folder, name))
    tf.config.experimental.enable_distributed_strategy("localized")
    _check_estimator(strategy, folder)
    print("rank {} is done".format(strategy.rank))


class Whole(NamedTuple):
    """What one process has after training.

    Attributes:
      losses: Of each step, over this rank's part of the batch.
      variables: All, by name.
    """

    losses: np.ndarray
    variables: Dict[str, np.ndarray]


def _alone(rank: int, size: int) -> Whole:
    with communicating_through(OneRank()), tf.Graph().as_default():
        model = Model(ALONE, 0, 1)
        own = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        model.loss = tf.reduce_mean(model.errors[own])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = model.trained(session)
            return Whole(losses, session.run({v.op.name: v for v in tf.global_variables()}))


def _check(ways: Ways, strategy: Any, whole: Whole, folder: str) -> None:
    """Trains, and reads the checkpoint as a process without graph_opt would."""
    with ways.scope(), tf.Graph().as_default() as graph:
        model = Model(ways, strategy.rank, strategy.world_size)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
            losses = model.trained(session)
    np.testing.assert_allclose(losses, whole.losses, rtol=1e-3, atol=1e-5)
    if strategy.world_size > 1:
        types = [node.op for node in graph_opt.running_graph_def(graph).node]
        exchanges = sum(one.endswith("ExchangeGather") for one in types)
        assert exchanges == 1 or ways.in_conditionals, exchanges
        assert len(graph_opt.session_reports()[-1].report.sharded) == 5
    if strategy.rank == 0:
        reader = tf.train.load_checkpoint(folder)
        for name, value in whole.variables.items():
            np.testing.assert_allclose(reader.get_tensor(name), value, rtol=1e-3, atol=1e-5)


def _check_estimator(strategy: Any, folder: str) -> None:
    """Trains, evaluates, goes on from the checkpoint, and exports twice."""
    model_dir = os.path.join(folder, "estimator")
    for last in (20, 30):
        estimator = strategy.estimator(_model_fn, model_dir=model_dir, params=strategy)
        metrics, _ = estimator.train_and_evaluate(
            tf.estimator.TrainSpec(_input_fn, max_steps=last),
            tf.estimator.EvalSpec(_input_fn, steps=2, start_delay_secs=0),
            eval_every_n_iter=10,
        )
        assert (metrics or {}).get("global_step") == (last if strategy.rank == 0 else None)
        assert estimator.evaluate(_input_fn, steps=1)["global_step"] == last
    exported = estimator.export_saved_model(os.path.join(folder, "exported"), _serving_fn)
    served = strategy.export_saved_model(
        os.path.join(folder, "served"), model_dir, lambda: _signature(strategy)
    )
    expected = [float(one["score"]) for one in estimator.predict(_input_fn)][: 2 * BATCH]
    for one in (exported.decode(), served):
        np.testing.assert_allclose(_served(one, np.arange(2 * BATCH) % ROWS), expected, rtol=1e-4)


def _scores(strategy: Any, ids: tf.Tensor) -> tf.Tensor:
    with strategy.embedding_scope():
        partitioner = tf.fixed_size_partitioner(num_shards=strategy.world_size)
        with tf.variable_scope("embedding", partitioner=partitioner):
            table = tf.get_variable("table", [ROWS, WIDTH])
    return tf.layers.dense(tf.nn.embedding_lookup(table, ids), 1, name="dense")[:, 0]


def _model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    scores = _scores(params, features["ids"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": scores})
    loss = tf.reduce_mean(tf.square(scores - labels))
    train = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def _input_fn() -> Any:
    ids = np.arange(STEPS * BATCH) % ROWS
    data = ({"ids": ids}, (ids % 2).astype(np.float32))
    return tf.data.Dataset.from_tensor_slices(data).batch(BATCH)


def _serving_fn() -> Any:
    ids = tf.placeholder(tf.int64, [None])
    return tf.estimator.export.ServingInputReceiver({"ids": ids}, {"ids": ids})


def _signature(strategy: Any) -> Any:
    ids = tf.placeholder(tf.int64, [None])
    return tf.saved_model.predict_signature_def({"ids": ids}, {"score": _scores(strategy, ids)})


def _served(folder: str, ids: np.ndarray) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.load(session, ["serve"], folder)
        (signature,) = loaded.signature_def.values()
        (given,), (returned,) = signature.inputs.values(), signature.outputs.values()
        scores: np.ndarray = session.run(returned.name, {given.name: ids})
        return scores


if __name__ == "__main__":
    main()
