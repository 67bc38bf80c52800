"""Lookups that no training step runs in TensorFlow are not run by a rewritten graph either."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.column_scope import group_embedding_column_scope
from graph_opt.runtime.mark import async_embedding_mark_node
from graph_opt.session.graph_records import report_of
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.passes import fused_models, models

COLUMNS = 5


def codes(report: Any) -> List[Any]:
    return [lookup.refusal["code"] if lookup.refusal else None for lookup in report.lookups]


def train_columns(grouped: bool) -> Any:
    """A train op over embedding columns, in a group or not."""
    ids = np.arange(40).reshape([8, 5])
    features = {"c{}".format(i): ids[:, i] for i in range(COLUMNS)}
    dataset = tf.data.Dataset.from_tensor_slices((features, np.ones([8], np.float32)))
    inputs, labels = tf.data.make_one_shot_iterator(dataset.repeat().batch(4)).get_next()

    def columns() -> List[Any]:
        initializer = tf.random_uniform_initializer(-1, 1, seed=3)
        return [
            tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity(name, 40),
                4,
                initializer=initializer,
            )
            for name in sorted(features)
        ]

    if grouped:
        with group_embedding_column_scope():
            made = columns()
    else:
        made = columns()
    joined = tf.feature_column.input_layer(inputs, made)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(joined, axis=1) - labels))
    return loss, tf.train.AdagradOptimizer(0.1).minimize(loss)


def test_columns_of_a_scope_are_looked_up_once_per_batch() -> None:
    """Each column gives its result at once; the lookups replaced later must stay dead."""
    loss, _ = train_columns(grouped=True)
    report = optimize_graph(loss.graph, models.config(staleness_sample_steps=0))
    assert codes(report) == [None] * COLUMNS
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        put = loss.graph.get_operation_by_name(report.stages[0].name + "/TensorBufferPut")
        session.run(
            loss.graph.get_operation_by_name(report.stages[0].io_stage + "/TensorBufferPut")
        )
        ops = fused_models.ran(loss.graph, [put], session)
    assert sum("GroupEmbeddingLookup" in op for op in ops) == 1
    # For each column pooled rows, the ids as they came, and ids, indices and shape for the
    # gradient; labels.
    assert len(put.inputs) == 5 * COLUMNS + 1
    assert len(report.stages[0].boundary) == len(put.inputs)


def test_columns_of_a_scope_train_as_columns_outside() -> None:
    losses = []
    for grouped in (False, True):
        with tf.Graph().as_default() as graph:
            loss, step = train_columns(grouped)
            config = models.config(threads_num=1, capacity=1)
            with Session(graph=graph, config=config) as session:
                session.run(tf.global_variables_initializer())
                losses.append(session.run([loss, step])[0])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def with_unused_lookup() -> Dict[str, Any]:
    """A trained lookup, and another of the same batch that only a fetch would run."""
    inputs = models.features()
    table = models.table()
    other = models.table("other")
    trained = tf.nn.embedding_lookup(table, inputs["other"])
    unused = tf.nn.embedding_lookup(other, inputs["ids"][:, 0] + 1, name="unused")
    _, step = models.train([trained], inputs)
    return dict(step=step, unused=unused, ids=inputs["ids"], other=other)


@pytest.mark.parametrize("fused", [False, True])
def test_a_lookup_that_training_does_not_need_runs_when_it_is_fetched(fused: bool) -> None:
    tensors = with_unused_lookup()
    config = models.config()
    config.graph_options.optimizer_options.do_group_embedding = fused
    with Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        assert codes(report_of(session.graph)).count("not_used_in_training") == 1
        ids, rows, _ = session.run([tensors["ids"], tensors["unused"], tensors["step"]])
        values = session.run(tensors["other"])
    np.testing.assert_array_equal(rows, values[ids[:, 0] + 1])


def test_a_mark_moves_it_regardless() -> None:
    tensors = with_unused_lookup()
    async_embedding_mark_node(tensors["unused"])
    assert codes(models.optimized().report) == [None, None]


def test_a_graph_that_trains_nothing_has_its_lookups_as_results() -> None:
    inputs = models.features()
    tf.nn.embedding_lookup(models.table(), inputs["other"])
    assert codes(models.optimized().report) == [None]
