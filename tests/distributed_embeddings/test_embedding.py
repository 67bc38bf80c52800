"""`Embedding`, `ConcatOneHotEmbedding` and `embedding_lookup` against TensorFlow's own ops."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf

ROWS, WIDTH = 50, 5
BAGS = [[3, 3, 49, 0], [], [7]]


def table() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)


def dense_ids(hot: int) -> np.ndarray:
    return np.random.default_rng(hot).integers(0, ROWS, (9, hot))


@pytest.mark.parametrize("hot", [1, 8, 300])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_sums_and_their_gradients_are_those_of_tensorflow_to_the_bit(hot: int, dtype: Any) -> None:
    def results(look_up: Any) -> Tuple[np.ndarray, np.ndarray]:
        with context.eager_mode():
            param = tf.Variable(table(), use_resource=True)
            with tf.GradientTape() as tape:
                pooled = look_up(param, tf.constant(dense_ids(hot), dtype))
                loss = tf.reduce_sum(pooled * pooled)
            return pooled.numpy(), tf.convert_to_tensor(tape.gradient(loss, param)).numpy()

    def stock(param: Any, ids: Any) -> tf.Tensor:
        if hot <= 8:
            return tf.reduce_sum(tf.nn.embedding_lookup(param, ids), axis=1)
        bags = tf.RaggedTensor.from_tensor(ids).to_sparse()
        return tf.nn.embedding_lookup_sparse(param, bags, None, combiner="sum")

    ours, theirs = (
        results(lambda param, ids: de.embedding_lookup(param, ids, "sum")),
        results(stock),
    )
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_ragged_and_sparse_bags_may_be_empty(combiner: str) -> None:
    ragged = tf.ragged.constant(BAGS, dtype=tf.int64)
    param = tf.constant(table())
    results = [de.embedding_lookup(param, ids, combiner) for ids in (ragged, ragged.to_sparse())]
    power = {"sum": 0.0, "mean": 1.0, "sqrtn": 0.5}[combiner]
    expected = [table()[bag].sum(0) / max(1, len(bag)) ** power for bag in BAGS]
    with tf.Session() as session:
        for result in session.run(results):
            np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_as_many_ids_as_bags_are_not_one_each() -> None:
    ids = tf.RaggedTensor.from_row_splits([1, 2], [0, 2, 2])
    with tf.Session() as session:
        pooled = session.run(de.embedding_lookup(tf.constant(table()), ids, "sum"))
    np.testing.assert_array_equal(pooled, [table()[1] + table()[2], np.zeros(WIDTH)])


def test_what_embedding_lookup_cannot_take() -> None:
    param = tf.constant(table())
    with pytest.raises(TypeError, match="needs a variable or a tensor as its table, not a list"):
        de.embedding_lookup([param], [[1]], "sum")
    with pytest.raises(ValueError, match=r"ids of rank 2, not of shape \(1,\)"):
        de.embedding_lookup(param, [1], "sum")
    with pytest.raises(ValueError, match="combiner is 'max'"):
        de.embedding_lookup(param, [[1]], "max")
    with pytest.raises(TypeError, match="cannot return rows of sparse ids"):
        de.embedding_lookup(param, tf.ragged.constant(BAGS).to_sparse())
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="50"):
        session.run(de.embedding_lookup(param, [[ROWS]], "sum"))


@pytest.mark.parametrize("custom", [True, False])
@pytest.mark.parametrize("combiner", [None, "sum", "mean"])
@pytest.mark.parametrize("shape", [(4,), (4, 3), (2, 3, 4)])
def test_a_layer_takes_dense_ids_of_any_rank(
    custom: bool, combiner: Any, shape: Tuple[int, ...]
) -> None:
    layer = de.Embedding(ROWS, WIDTH, combiner=combiner, use_custom_kernel=custom, name="features")
    ids = np.random.default_rng(1).integers(0, ROWS, shape)
    if combiner is not None and len(shape) == 1:
        with pytest.raises(ValueError, match=r"'features' combines rows.*rank 2 or more"):
            layer(tf.constant(ids))
        return
    found = layer(tf.constant(ids, tf.float32))  # becomes int32
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        rows, whole = session.run([found, layer.embeddings])
    expected = whole[ids]
    if combiner is not None:
        expected = expected.sum(-2) if combiner == "sum" else expected.mean(-2)
    assert found.shape.as_list() == list(expected.shape)
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-7)
    assert layer.compute_output_shape(shape) == found.shape


def test_a_layer_takes_ragged_and_sparse_ids_and_the_configs_of_keras() -> None:
    with context.eager_mode():
        stock = tf.keras.layers.Embedding(ROWS, WIDTH, mask_zero=True, name="features")
        rows = de.Embedding.from_config(stock.get_config())
        assert (rows.name, rows.input_dim, rows.combiner) == ("features", ROWS, None)
        found = rows(tf.ragged.constant(BAGS))
        assert [len(bag) for bag in found.to_list()] == [4, 0, 1]
        layer = de.Embedding(ROWS, WIDTH, combiner="mean", embeddings_regularizer="l2")
        again = de.Embedding.from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        pooled = [layer(ids) for ids in (tf.ragged.constant(BAGS), tf.sparse.eye(3))]
        assert [one.shape.as_list() for one in pooled] == [[3, WIDTH]] * 2
        assert len(layer.losses) == 1 and layer.trainable_weights[0] is layer.embeddings
        with pytest.raises(ValueError, match="rank 2, not of shape"):
            layer(tf.ragged.constant([[[1], [2]]]))
    wrongs: List[Any] = [0, -1, 1.5, True]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="input_dim is"):
            de.Embedding(wrong, WIDTH)


def test_a_layer_computes_in_the_dtype_of_its_policy() -> None:
    with context.eager_mode():
        layer = de.Embedding(ROWS, WIDTH, combiner="sum", dtype="mixed_float16")
        assert layer(tf.constant([[1, 2]])).dtype == tf.float16
        assert layer.embeddings.dtype == tf.float32


def test_features_with_one_table_never_read_each_others_rows() -> None:
    with context.eager_mode():
        layer = de.ConcatOneHotEmbedding([4, 3, 10], WIDTH, name="features")
        ids = np.array([[3, 0, 9], [0, 2, 1]])
        rows = layer(ids).numpy()
        np.testing.assert_array_equal(rows, layer.params.numpy()[ids + [0, 4, 7]])
        for wrong in ([[4, 0, 0]], [[0, -1, 0]]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="layer 'features'"):
                layer(tf.constant(wrong))
        with pytest.raises(ValueError, match=r"has 3 features; its input has shape \(1, 2\)"):
            layer([[1, 2]])
        again = de.ConcatOneHotEmbedding.from_config(layer.get_config())
        assert again.feature_sizes == [4, 3, 10]


def test_a_sequential_model_trains_as_with_the_embedding_of_keras() -> None:
    def losses(make: Any) -> Any:
        with context.eager_mode():
            tf.set_random_seed(1)
            start = tf.keras.initializers.Constant(table())
            dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
            model = tf.keras.Sequential([make(start), dense])
            model.compile("adagrad", "mse")
            ids = dense_ids(3)
            wanted = ids[:, :1] / ROWS
            trained = model.fit(ids, wanted, 4, epochs=3, shuffle=False, verbose=0)
            return trained.history

    ours = losses(lambda start: de.Embedding(ROWS, WIDTH, start, combiner="mean"))
    stock = losses(
        lambda start: tf.keras.Sequential(
            [
                tf.keras.layers.Embedding(ROWS, WIDTH, start),
                tf.keras.layers.GlobalAveragePooling1D(),
            ]
        )
    )
    np.testing.assert_allclose(ours["loss"], stock["loss"], rtol=1e-5)
