"""`DistributedEmbedding` as scripts meet it: eager steps, functions, Keras models, errors."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf
from graph_opt.distributed_embeddings.id_ranges import IdRange, rows_of_ids
from graph_opt.distributed_embeddings.sent_ids import read_ids_of_all, sent_ids
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.distributed_embeddings.layer_ranks import (
    DENSE,
    ONE,
    RAGGED,
    SPARSE,
    Case,
    Table,
    as_input,
    held_by,
    ids_of,
    layer_of,
    loss_of,
    share,
    trained_by_stock,
    weights_of_loss,
    whole_tables,
)
from tests.distributed_embeddings.test_custom_layers import Sum
from tests.release_features import keras_optimizers

BATCH = 8
TABLES = [
    Table(30, 4, "sum"),
    Table(20, 4, "mean", RAGGED),
    Table(7, 4, "sum", SPARSE),
    Table(50, 6, None, ONE),
    Table(11, 4, None, DENSE),
]
CASE = Case(TABLES, dict(strategy="memory_balanced", row_slice_threshold=300), [0, 1, 2, 3, 4, 0])
# TensorFlow 2.9 gave it its name, and TensorFlow 1 has another.
WITHOUT_RETRACING: Dict[str, Any] = {
    name: True
    for name in ("reduce_retracing", "experimental_relax_shapes")
    if name in inspect.signature(tf.function).parameters
}


@pytest.mark.parametrize("traced", [False, True])
def test_tapes_give_the_gradients_of_sessions(traced: bool) -> None:
    def on_rank(transport: Transport) -> Any:
        rank, size = transport.rank, transport.size
        with communicating_through(transport), context.eager_mode():
            layer = layer_of(CASE)
            optimizer = keras_optimizers().Adagrad(0.3, 0.1, epsilon=0.0)

            def step(inputs: List[Any], wanted: List[Any]) -> None:
                with tf.GradientTape() as tape:
                    loss = loss_of(layer(inputs), wanted)
                weights = layer.trainable_weights
                pairs = zip(tape.gradient(loss, weights), weights)
                optimizer.apply_gradients(pair for pair in pairs if pair[1].shape[0])

            run = tf.function(step, **WITHOUT_RETRACING) if traced else step
            start = None
            for number in range(3):
                ids = ids_of(CASE, number, BATCH)
                inputs = [
                    as_input(share(bags, rank, size, False), one.kind, place)
                    for place, (bags, one) in enumerate(zip(ids, CASE.inputs))
                ]
                wanted = [
                    tf.constant(share(one, rank, size, False))
                    for one in weights_of_loss(CASE, number, BATCH)
                ]
                if start is None:
                    layer.build([one.shape for one in inputs])
                    start = held_by(layer, lambda variable: variable.numpy())
                run(inputs, wanted)
            return start, held_by(layer, lambda variable: variable.numpy())

    start, end = (whole_tables(CASE, one) for one in zip(*run_ranks(2, on_rank)))
    optimizer = lambda: tf.train.AdagradOptimizer(0.3)  # noqa: E731
    for ours, theirs in zip(end, trained_by_stock(CASE, start, 3, BATCH, optimizer)):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_an_id_is_never_a_row_of_another_table() -> None:
    def on_rank(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            tables = [de.Embedding(5, 2, name="table_{}".format(one)) for one in range(4)]
            layer = de.DistributedEmbedding(tables, name="layer")
            inputs = [tf.placeholder(tf.int64, [None]) for _ in tables]
            outputs = layer(inputs)
            session.run(tf.global_variables_initializer())
            assert len(layer.weights) == 1
            for place, wrong in ((0, 5), (2, -1), (3, 7)):
                feeds = {one: [0, 4] for one in inputs}
                if transport.rank == transport.size - 1:
                    feeds[inputs[place]] = [1, wrong]
                message = "table_{}.*has no row.*{}.*number of rows is.*5".format(place, wrong)
                with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                    session.run(outputs, feeds)
                session.run(outputs, {one: [0, 4] for one in inputs})

    for ranks in (1, 2):
        run_ranks(ranks, on_rank)


def test_keras_trains_and_saves_its_config() -> None:
    with communicating_through(OneRank()), context.eager_mode():
        ids = [np.arange(12).reshape(6, 2) % 5, np.arange(6) % 7]
        layer = de.DistributedEmbedding(
            [de.Embedding(5, 3, combiner="mean"), tf.keras.layers.Embedding(7, 3)],
            column_slice_threshold=12,
        )
        inputs = [
            tf.keras.Input(shape=(2,), dtype=tf.int64),
            tf.keras.Input(shape=(), dtype=tf.int64),
        ]
        joined = tf.keras.layers.Concatenate()(layer(inputs))
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(joined))
        model.compile(keras_optimizers().SGD(0.1), "mse")
        before = [one.copy() for one in layer.get_weights()]
        model.fit(ids, np.ones([6, 1], np.float32), epochs=2, batch_size=3, verbose=0)
        after = layer.get_weights()
        assert [one.shape for one in after] == [(5, 3), (7, 3)]
        assert not any(np.array_equal(*pair) for pair in zip(before, after))
        layer.set_weights([one * 0 for one in after])
        assert not np.concatenate(layer.get_weights()).any()
        again = de.DistributedEmbedding.from_config(layer.get_config())
        assert again.strategy.local_weight_offsets == layer.strategy.local_weight_offsets


def test_mixed_precision_sends_halves() -> None:
    def on_rank(transport: Transport) -> Any:
        with communicating_through(transport), context.eager_mode():
            layer = de.DistributedEmbedding(
                [de.Embedding(5, 2, name="one"), de.Embedding(5, 4, name="two")],
                name="layer",
                dtype=tf.compat.v2.keras.mixed_precision.Policy("mixed_float16"),
            )
            outputs = layer([tf.constant([1, 3]), tf.constant([0, 4])])
            assert all(one.dtype == tf.float16 for one in outputs)
            assert all(one.dtype == tf.float32 for one in layer.weights)
            return [one.numpy() for one in outputs], held_by(layer, lambda one: one.numpy())

    case = Case([Table(5, 2, None), Table(5, 4, None)], {})
    results = run_ranks(2, on_rank)
    tables = whole_tables(case, [held for _, held in results])
    for values, _ in results:
        np.testing.assert_array_equal(values[0], tables[0][[1, 3]].astype(np.float16))
        np.testing.assert_array_equal(values[1], tables[1][[0, 4]].astype(np.float16))


@pytest.mark.parametrize(
    "message, arguments, inputs",
    [
        ("choose one of basic", dict(strategy="best"), []),
        ("dp_input=False is for tables", dict(dp_input=False, row_slice_threshold=1), []),
        ("got 1 inputs on rank 0; need 2", {}, [[[1]]]),
        ("All input need to have same batchsize", {}, [[[1]], [[1], [2]]]),
        ("input 1 of layer 'layer' has shape .*; need ids of rank 2", {}, [[[1]], [1]]),
    ],
)
def test_errors(message: str, arguments: Dict[str, Any], inputs: List[Any]) -> None:
    with communicating_through(OneRank()), context.eager_mode():
        with pytest.raises(ValueError, match=message):
            tables = [de.Embedding(5, 2, combiner="sum"), de.Embedding(5, 2, combiner="sum")]
            layer = de.DistributedEmbedding(tables, name="layer", **arguments)
            layer([tf.constant(one) for one in inputs])


def test_batches_of_all_ranks_must_be_divisible() -> None:
    def on_rank(transport: Transport) -> None:
        with communicating_through(transport), context.eager_mode():
            tables = [de.Embedding(5, 2, name="one"), de.Embedding(5, 4, name="two")]
            layer = de.DistributedEmbedding(tables, dp_input=False)
            with pytest.raises(ValueError, match="is 3, not divisible by 2 ranks"):
                layer([tf.constant([0, 1, 2])])

    run_ranks(2, on_rank)


@pytest.mark.parametrize("name", ["embeddings_regularizer", "embeddings_constraint"])
def test_what_needs_whole_tables_is_refused(name: str) -> None:
    value: Any = "l2" if name.endswith("regularizer") else "unit_norm"
    with communicating_through(OneRank()):
        with pytest.raises(ValueError, match="'rows' has {}".format(name)):
            de.DistributedEmbedding([de.Embedding(5, 2, name="rows", **{name: value})])


def test_ids_of_all_kinds_find_rows_and_travel() -> None:
    with context.eager_mode():
        ragged = tf.ragged.constant([[1, 2], [], [4]], dtype=tf.int64)
        dense, empty = tf.constant([[3, 0]]), tf.zeros([0], tf.int32)
        sent = [ragged, ragged.to_sparse(), dense, empty]
        message = sent_ids(sent)
        for read in read_ids_of_all(tf.concat([message, message], axis=0), sent, 2):
            assert read[0].to_list() == ragged.to_list()
            assert tf.sparse.to_dense(read[1]).numpy().tolist() == [[1, 2], [0, 0], [4, 0]]
            assert read[2].numpy().tolist() == [[3, 0]] and read[2].dtype == tf.int32
            assert read[3].shape == [0]
        ranges = [IdRange("first", 5, 100), IdRange("none", 1, 7), IdRange("last", 4, 0)]
        rows = rows_of_ids([ragged.values, empty, dense], ranges, True)
        assert [one.numpy().tolist() for one in rows] == [[101, 102, 104], [], [[3, 0]]]
        message = "table.*last.*has no row.*4"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            rows_of_ids([ragged.values, empty, dense + 1], ranges, True)


@pytest.mark.parametrize("traced", [False, True])
def test_a_rank_may_have_no_samples(traced: bool) -> None:
    def on_rank(transport: Transport) -> Any:
        with communicating_through(transport), context.eager_mode():
            tables = [Sum(7, 2, name="sum"), de.Embedding(9, 4, combiner="sum", name="rows")]
            layer = de.DistributedEmbedding(tables, name="layer")
            ids = tf.constant([[1, 2]] * (3 * transport.rank), tf.int64, [3 * transport.rank, 2])

            def step() -> Any:
                with tf.GradientTape() as tape:
                    outputs = layer([ids, ids])
                    loss = tf.reduce_sum(tf.concat(outputs, axis=1))
                return outputs, tape.gradient(loss, layer.trainable_weights)

            outputs, gradients = tf.function(step)() if traced else step()
            total = sum(float(tf.reduce_sum(tf.convert_to_tensor(one))) for one in gradients)
            return [one.shape.as_list() for one in outputs], total

    results = run_ranks(2, on_rank)
    assert [shapes for shapes, _ in results] == [[[0, 2], [0, 4]], [[3, 2], [3, 4]]]
    assert sum(total for _, total in results) == 3 * 2 * (2 + 4)
