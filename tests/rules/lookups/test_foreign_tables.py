"""Lookups in tables of TensorFlow Recommenders Addons run ahead, where these are installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.passes import fused_models

# Where `make bench` installs them.
PEERS = Path(__file__).resolve().parents[3] / "build/peers/tfra"
KEYS = np.arange(1, 50)


@pytest.fixture(name="embeddings")
def fixture_embeddings(monkeypatch: pytest.MonkeyPatch) -> Any:
    if PEERS.is_dir():
        monkeypatch.syspath_prepend(str(PEERS))
    return pytest.importorskip("tensorflow_recommenders_addons").dynamic_embedding


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


def test_rows_that_are_read_ahead_are_those_of_their_batch(embeddings: Any) -> None:
    config = fused_models.config(prefetch=True)
    for ahead, stock in zip(results(embeddings, config), results(embeddings, None)):
        np.testing.assert_array_equal(ahead[0], stock[0])
        np.testing.assert_array_equal(ahead[1], stock[1])


def test_rows_of_slots_stay_with_the_update(embeddings: Any) -> None:
    rows, pooled, _ = lookups(embeddings)
    optimizer = embeddings.DynamicEmbeddingOptimizer(tf.train.AdagradOptimizer(0.1))
    optimizer.minimize(tf.reduce_sum(rows) + tf.reduce_sum(pooled))
    report = optimize_graph(tf.get_default_graph(), fused_models.config(prefetch=True))
    assert [one.outcome for one in report.lookups] == ["moved"] * 2
    assert {one.refusals[0]["code"] for one in report.fused_lookups} == {"rows_not_by_ids"}
