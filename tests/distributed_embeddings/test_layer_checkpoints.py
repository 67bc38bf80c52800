"""Checkpoints and exports of a layer's tables: whole tables under their own names."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt import distributed_embeddings as de
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.sharding.test_exporting import QUERY, served

# Merged, of columns, by rows and replicated.
SHAPES = [(30, 4), (20, 4), (60, 9), (50, 6), (5, 3)]
ARGUMENTS: Dict[str, Any] = dict(
    row_slice_threshold=300, data_parallel_threshold=20, column_slice_threshold=100
)
BAGS = 12


class Model:
    """A layer and its training; ranks share the bags of a batch."""

    def __init__(self, transport: Transport) -> None:
        rank, size = transport.rank, transport.size
        tables = [
            de.Embedding(*shape, combiner="sum", name="table_{}".format(place))
            for place, shape in enumerate(SHAPES)
        ]
        self.step = tf.train.get_or_create_global_step()
        bags = tf.constant(list(range(rank, BAGS, size)), tf.int64) * 7 + self.step
        ids = [tf.stack([bags % rows, bags * 3 % rows], axis=1) for rows, _ in SHAPES]
        outputs = de.DistributedEmbedding(tables, name="layer", **ARGUMENTS)(ids)
        loss = tf.add_n([tf.reduce_sum(tf.square(one + 0.1)) for one in outputs])
        self.loss = transport.all_reduce(loss, "sum", "loss")
        optimizer = de.DistributedOptimizer(tf.train.AdamOptimizer(0.01), op="sum")
        self.train = optimizer.minimize(loss, global_step=self.step)


def train(transport: Transport, steps: int, restored: str, saved: str) -> List[float]:
    """Losses of each step."""
    with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
        model = Model(transport)
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        if restored:
            saver.restore(session, restored)
        losses = [float(session.run([model.loss, model.train])[0]) for _ in range(steps)]
        if saved and transport.rank == 0:
            saver.save(session, saved)
        return losses


@pytest.mark.slow
def test_a_checkpoint_has_whole_tables_for_any_number_of_ranks(tmp_path: Path) -> None:
    saved, alone = str(tmp_path / "two"), str(tmp_path / "one")
    expected = run_ranks(1, lambda transport: train(transport, 3, "", alone))[0]
    ours = run_ranks(2, lambda transport: train(transport, 3, "", saved))
    for losses in ours:
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
    names = dict(tf.train.list_variables(saved))
    assert names == dict(tf.train.list_variables(alone))
    for place, shape in enumerate(SHAPES):
        name = "layer/table_{}/embeddings".format(place)
        assert names[name] == names[name + "/Adam"] == names[name + "/Adam_1"] == list(shape)
    for name in names:
        theirs, whole = (tf.train.load_variable(one, name) for one in (alone, saved))
        np.testing.assert_allclose(whole, theirs, rtol=1e-4, atol=1e-6, err_msg=name)
    goes_on = run_ranks(1, lambda transport: train(transport, 2, alone, ""))[0]
    for ranks, path in ((1, saved), (3, saved), (2, alone)):
        going_on: Any = functools.partial(train, steps=2, restored=path, saved="")
        np.testing.assert_allclose(run_ranks(ranks, going_on), [goes_on] * ranks, rtol=1e-4)


def test_an_export_serves_whole_tables_without_graph_opt(tmp_path: Path) -> None:
    folder = str(tmp_path / "served")

    def export(transport: Transport) -> List[float]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            words = tf.placeholder(tf.string, [None, 2], "words")
            ids = tf.strings.to_hash_bucket_fast(words, 5)
            tables = [
                de.Embedding(rows, 4, combiner="sum", name="table_{}".format(place))
                for place, rows in enumerate((5, 7, 9))
            ]
            outputs = de.DistributedEmbedding(tables, name="layer")([ids, ids, ids])
            scores = tf.reduce_sum(tf.add_n(outputs), axis=1, keepdims=True)
            session.run(tf.global_variables_initializer())
            sok.export_saved_model(session, folder, {"words": words}, {"scores": scores})
            return session.run(scores, {words: QUERY}).ravel().tolist()

    for scores in run_ranks(2, export, 60):
        np.testing.assert_allclose(served(folder), scores, rtol=1e-5)
