"""Lookups in tables of TensorFlow Recommenders Addons run ahead, where these are installed.

In processes of their own: the import of TFRA replaces TensorFlow's function that creates slots by
one that fails for ref variables, which TensorFlow 2.15 has in another module.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.forked_programs import Forked
from tests.passes import fused_models

# Where `make bench` installs them.
PEERS = Path(__file__).resolve().parents[3] / "build/peers/tfra"
KEYS = np.arange(1, 50)


def lookups(embeddings: Any) -> List[Any]:
    """Rows, combined and not, with what trains them, and what fills the table."""
    random = np.random.RandomState(0)
    data = (random.choice(KEYS, [32, 3]), random.choice(KEYS, [32]))
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(4)
    bags, ids = tf.data.make_one_shot_iterator(dataset).get_next()
    table = embeddings.get_variable(
        "users", tf.int64, tf.float32, dim=4, devices=["/CPU:0"], initializer=0.0
    )
    rows, _ = embeddings.embedding_lookup(table, ids, name="rows", return_trainable=True)
    sparse = tf.sparse.from_dense(bags)
    pooled, _ = embeddings.embedding_lookup_sparse(
        table, sparse, None, combiner="mean", name="pooled", return_trainable=True
    )
    values = tf.constant(random.uniform(-1, 1, [len(KEYS), 4]), tf.float32)
    return [rows + 0.0, pooled + 0.0, table.upsert(tf.constant(KEYS), values)]


def results(embeddings: Any, config: Any) -> List[Any]:
    """What a model of eight batches returns."""
    with tf.Graph().as_default() as graph:
        rows, pooled, fill = lookups(embeddings)
        initialize = tf.global_variables_initializer()
        if config is not None:
            report = optimize_graph(graph, config)
            assert [one.outcome for one in report.lookups] == ["moved"] * 2
            assert {one.api for one in report.lookups} == {
                "tfra.dynamic_embedding.embedding_lookup"
            }
        with tf.Session() if config is None else Session(config=config) as session:
            session.run(initialize)
            session.run(fill)
            return [session.run([rows, pooled]) for _ in range(8)]


def rows_are_read_ahead(embeddings: Any) -> None:
    config = fused_models.config(prefetch=True)
    for ahead, stock in zip(results(embeddings, config), results(embeddings, None)):
        np.testing.assert_array_equal(ahead[0], stock[0])
        np.testing.assert_array_equal(ahead[1], stock[1])


def rows_of_slots_stay_with_the_update(embeddings: Any) -> None:
    rows, pooled, _ = lookups(embeddings)
    optimizer = embeddings.DynamicEmbeddingOptimizer(tf.train.AdagradOptimizer(0.1))
    optimizer.minimize(tf.reduce_sum(rows) + tf.reduce_sum(pooled))
    report = optimize_graph(tf.get_default_graph(), fused_models.config(prefetch=True))
    assert [one.outcome for one in report.lookups] == ["moved"] * 2
    assert {one.refusals[0]["code"] for one in report.fused_lookups} == {"rows_not_by_ids"}


def ref_variables_have_slots(embeddings: Any) -> None:
    del embeddings
    graph_opt.install()
    table = tf.get_variable("table", initializer=[1.0, 2.0], use_resource=False)
    train = tf.train.AdagradOptimizer(0.5, 1.0).minimize(tf.reduce_sum(table))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(table), [1 - 0.125**0.5, 2 - 0.125**0.5])


def call(check: Callable[[Any], None]) -> None:
    """What runs in a process that imports TFRA."""
    sys.path.append(str(PEERS))
    addons = importlib.import_module("tensorflow_recommenders_addons")
    with tf.Graph().as_default():
        check(addons.dynamic_embedding)


@pytest.mark.parametrize(
    "check",
    [rows_are_read_ahead, rows_of_slots_stay_with_the_update, ref_variables_have_slots],
)
def test_tables_of_tfra(check: Callable[[Any], None], tmp_path: Path) -> None:
    if not PEERS.is_dir() and not importlib.util.find_spec("tensorflow_recommenders_addons"):
        pytest.skip("TensorFlow Recommenders Addons are not installed")
    ended = Forked(call, (check,), tmp_path).wait()
    assert ended.returncode == 0, ended.stderr
