"""DeepRec's columns of sparse numbers, hashes and cut sequences, against TensorFlow's own."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.sparse_columns import cut_off
from tests.quick_cases import one_of_each

WORDS = [[b"a", b""], [b"b", b"c"], [b"", b""]]
IDS = np.array([[4, 0, 3, 0, 1], [0, 0, 2, 5, 0], [0, 0, 0, 0, 0], [7, 0, 0, 0, 0]])


@pytest.fixture(autouse=True)
def installed() -> Any:
    with graph_opt.install():
        yield


def sparse(dense: Any, dtype: Any = tf.int64) -> tf.SparseTensor:
    return tf.sparse.from_dense(tf.constant(dense, dtype))


def run(*fetches: Any) -> List[Any]:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return list(session.run(fetches))


def cut_by_hand(row: Any, length: int, side: str, reverse: bool) -> List[int]:
    """A row's numbers in their places, cut behind the last one; zeros are gaps."""
    used = list(row[: max([place + 1 for place, one in enumerate(row) if one], default=0)])
    kept = used[max(0, len(used) - length) :] if side == "left" else used[:length]
    kept = kept[: max([place + 1 for place, one in enumerate(kept) if one], default=0)]
    return (kept[::-1] if reverse else kept) + [0] * (length - len(kept))


@pytest.mark.parametrize(
    "length, side, reverse", one_of_each([1, 2, 7], ["right", "left"], [False, True])
)
def test_the_first_or_last_ids_are_kept(length: int, side: str, reverse: bool) -> None:
    cut = cut_off(sparse(IDS), 1, length, side == "left", reverse)
    expected = [cut_by_hand(row, length, side, reverse) for row in IDS]
    dense, shape, order = run(tf.sparse.to_dense(cut), cut.dense_shape, cut.indices)
    assert dense.tolist() == expected and shape.tolist() == [4, length]
    assert order.tolist() == sorted(order.tolist())


def test_an_outer_dimension_is_cut_too() -> None:
    ids = np.array([[[1, 2], [0, 0], [3, 4]], [[0, 0], [5, 6], [0, 0]]])
    cut = cut_off(sparse(ids), 1, 2, is_left=True, is_reversed=False)
    inner = cut_off(sparse(ids), 2, 1, is_left=False, is_reversed=False)
    found, of_inner = run(tf.sparse.to_dense(cut), tf.sparse.to_dense(inner))
    assert found.tolist() == [[[0, 0], [3, 4]], [[0, 0], [5, 6]]]
    assert of_inner.tolist() == ids[:, :, :1].tolist()


def embedded(columns: Any, features: Dict[str, Any], keras: bool) -> Tuple[tf.Tensor, List[Any]]:
    if keras:
        layer = tf.keras.layers.DenseFeatures(columns)
        return layer(features), layer.trainable_weights
    made: Dict[Any, Any] = {}
    layer = tf.feature_column.input_layer(features, columns, cols_to_vars=made)
    return layer, [variable for variables in made.values() for variable in variables]


@pytest.mark.parametrize("keras", [False, True])
def test_cut_columns_are_looked_up_with_their_weights(keras: bool) -> None:
    source = tf.feature_column.weighted_categorical_column(
        tf.feature_column.categorical_column_with_identity("ids", 9), "weights"
    )
    cut = tf.feature_column.cutoff_categorical_column(source, 2, "left")
    assert set(tf.feature_column.make_parse_example_spec([cut])) == {"ids", "weights"}
    column = tf.feature_column.embedding_column(cut, 2, "sum")
    features = {"ids": sparse(IDS), "weights": sparse(IDS * 0.5, tf.float32)}
    layer, (table,) = embedded([column], features, keras)
    expected, rows = run(layer, table)
    for row, ids in zip(expected, IDS):
        left = [one for one in cut_by_hand(ids, 2, "left", False) if one]
        np.testing.assert_allclose(row, sum((0.5 * one * rows[one] for one in left), np.zeros(2)))


def test_cut_columns_have_weights_in_a_linear_model() -> None:
    keys = tf.feature_column.categorical_column_with_embedding("ids", tf.int64)
    cut = tf.feature_column.cutoff_categorical_column(keys, 1)
    model = tf.feature_column.linear_model({"ids": sparse(IDS)}, [cut])
    train = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(model))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        # Weights and bias have moved by their gradients; the second and third row have no id left.
        assert session.run(model)[:, 0].tolist() == [-5.0, -4.0, -4.0, -5.0]


@pytest.mark.parametrize("keras", [False, True])
def test_sparse_numbers_are_input_of_a_layer(keras: bool) -> None:
    column = tf.feature_column.sparse_numeric_column("price", 3, tf.float32)
    prices = tf.SparseTensor([[0, 1], [2, 0]], tf.constant([1.5, -2.0]), [3, 2])
    layer, _ = embedded([column], {"price": prices}, keras)
    assert layer.shape.as_list()[1] == 3
    assert run(layer)[0].tolist() == [[0.0, 1.5, 0.0], [0.0] * 3, [-2.0, 0.0, 0.0]]


def test_sparse_numbers_need_a_shape_and_a_sparse_tensor_there() -> None:
    without = tf.feature_column.sparse_numeric_column("price", dtype=tf.float32)
    with_shape = tf.feature_column.sparse_numeric_column("price", [1], tf.float32)
    for column, feature, message in (
        (without, sparse([[1.0]], tf.float32), "a layer needs its shape"),
        (with_shape, tf.constant([[1.0]]), "the feature is dense; need a SparseTensor"),
        (with_shape, sparse([[1]]), "is of float32, but its values are int64"),
    ):
        with pytest.raises(ValueError, match=message):
            tf.feature_column.input_layer({"price": feature}, [column])
    with pytest.raises(ValueError, match="use hash_table_column, or sparse_bucketized_column"):
        tf.feature_column.embedding_column(without, 2).create_state(None)


@pytest.mark.parametrize("keras", [False, True])
def test_buckets_of_sparse_numbers_are_those_of_dense_ones(keras: bool) -> None:
    boundaries, prices = [0.0, 1.0, 10.0], [[-3.0, 0.5], [1.0, 70.0]]
    dense = tf.feature_column.numeric_column("price", 2)
    of_dense = tf.feature_column.bucketized_column(dense, boundaries)
    of_sparse = tf.feature_column.sparse_bucketized_column(
        tf.feature_column.sparse_numeric_column("price", 2, tf.float32), boundaries
    )
    expected, _ = embedded([of_dense], {"price": tf.constant(prices)}, keras)
    layer, _ = embedded([of_sparse], {"price": sparse(prices, tf.float32)}, keras)
    column = tf.feature_column.embedding_column(of_sparse, 2, "sum")
    rows, (table,) = embedded([column], {"price": sparse(prices, tf.float32)}, keras)
    one_hot, of_layer, pooled, weights = run(expected, layer, rows, table)
    np.testing.assert_array_equal(of_layer, one_hot)
    np.testing.assert_allclose(pooled, one_hot.reshape(2, 2, 4).sum(1) @ weights, rtol=1e-6)


@pytest.mark.parametrize("buckets", [10, 2**40])
def test_hashes_are_those_of_buckets(buckets: int) -> None:
    words = tf.constant(["a", "b", "", "some longer text", "-17"])
    for dtype, feature, texts in (
        (tf.string, words, ["a", "b", "some longer text", "-17"]),
        (tf.int64, tf.constant([3, -1, -17], tf.int64), ["3", "-17"]),
    ):
        column = tf.feature_column.categorical_column_with_hash("word", dtype=dtype)
        hashes = column.sparse(feature).values
        (found,) = run(hashes)
        (expected,) = run(tf.strings.to_hash_bucket_fast(texts, buckets))
        assert [int(one) % 2**64 % buckets for one in found] == expected.tolist()
    positive = tf.feature_column.categorical_column_with_hash("word", allow_neg=False)
    signed = tf.feature_column.categorical_column_with_hash("word")
    without, with_sign = run(positive.sparse(words).values, signed.sparse(words).values)
    assert with_sign.min() < 0 <= without.min()
    assert [one & (2**63 - 1) for one in with_sign.tolist()] == without.tolist()


@pytest.mark.parametrize(
    "of_table, allow_neg, keras", one_of_each([True, False], [True, False], [False, True])
)
def test_all_hashes_have_rows(of_table: bool, allow_neg: bool, keras: bool) -> None:
    hashes = tf.feature_column.categorical_column_with_hash("word", allow_neg=allow_neg)
    make = tf.feature_column.hash_table_column if of_table else tf.feature_column.embedding_column
    column = make(hashes, 2, initializer=tf.ones_initializer(), combiner="sum")
    layer, (table,) = embedded([column], {"word": tf.constant(WORDS)}, keras)
    assert run(layer)[0].tolist() == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]
    kind = "hash_table" if of_table else "embedding"
    assert table.op.name.endswith("/word_{}/embedding_weights".format(kind))


def test_shared_columns_look_all_hashes_up() -> None:
    hashes = [tf.feature_column.categorical_column_with_hash(name) for name in ("word", "other")]
    columns = tf.feature_column.shared_embedding_columns(
        hashes, 1, "sum", initializer=tf.ones_initializer()
    )
    layer = tf.feature_column.input_layer(
        {"word": tf.constant(WORDS), "other": tf.constant(WORDS)}, columns
    )
    assert run(layer)[0].tolist() == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]


def test_a_hash_table_has_rows_for_any_number() -> None:
    users = tf.feature_column.sparse_numeric_column("user")
    partitioner = tf.hash_table.FixedSizeHashTablePartitioner(2)
    column = tf.feature_column.hash_table_column(users, 2, partitioner=partitioner)
    features = {"user": sparse([[2**40], [3], [2**40]])}
    layer, parts = embedded([column], features, keras=False)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(layer))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before, _, after = session.run(layer), session.run(train), session.run(layer)
    assert len(parts) == 2 and before.any()
    np.testing.assert_allclose(before - after, [[1.0] * 2, [0.5] * 2, [1.0] * 2], rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "arguments", "error", "message"),
    [
        ("cutoff_categorical_column", (None, 0), ValueError, "cutoff_length is 0; need 1 or more"),
        ("cutoff_categorical_column", (None, 1, "up"), ValueError, "cutoff_side is 'up'"),
        ("cutoff_categorical_column", (None, 1, "left", 0), ValueError, "cutoff_axis is 0"),
        ("sparse_numeric_column", (3,), ValueError, "key is 3; need a string"),
        ("sparse_numeric_column", ("a", 0), ValueError, "0 in shape; need 1 or more"),
        ("sparse_numeric_column", ("a", [1.5]), TypeError, "1.5 in shape; need integers"),
        ("sparse_numeric_column", ("a", None, tf.string), ValueError, "dtype is string"),
        ("sparse_bucketized_column", ("a", [1.0]), ValueError, "source_column is a; need"),
        ("categorical_column_with_hash", ("a", "murmur"), ValueError, "hash_type is 'murmur'"),
        ("categorical_column_with_hash", ("a", "farm", True, tf.float32), ValueError, "float32"),
    ],
)
def test_what_cannot_be_is_refused(call: str, arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        getattr(tf.feature_column, call)(*arguments)


def test_buckets_need_ascending_boundaries_of_one_dimension() -> None:
    make = tf.feature_column.sparse_bucketized_column
    price = tf.feature_column.sparse_numeric_column
    for boundaries in ([], [2.0, 1.0], [1.0, 1.0]):
        with pytest.raises(ValueError, match="need one or more, ascending"):
            make(price("price"), boundaries)
    with pytest.raises(ValueError, match="need one dimension"):
        make(price("price", [2, 2]), [1.0])


def test_hash_tables_that_cannot_be_are_refused() -> None:
    users = tf.feature_column.categorical_column_with_identity("user", 3)
    make = tf.feature_column.hash_table_column
    for arguments, message in (
        ({"dimension": 0}, "dimension is 0; need 1 or more"),
        ({"dimension": 2, "dtype": tf.float64}, "need float32"),
        ({"dimension": 2, "embedding_lookup_hooks": (1,)}, "hooks are not supported"),
    ):
        with pytest.raises(ValueError, match=message):
            make(users, **arguments)
    two = tf.feature_column.categorical_column_with_multihash("user", [3, 3])
    with pytest.raises(ValueError, match="has two tables; use embedding_column"):
        make(two, 2)
