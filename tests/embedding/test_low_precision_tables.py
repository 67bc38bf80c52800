"""Group lookups in tables of int8, float16 and bfloat16, pooled into float32.

They equal TensorFlow's lookups in tables of float32 with the same values: to the bit without
weights, for what differs is how rows are stored, and not how they are added.
"""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_lookup
from graph_opt.table_files.low_precision import float_rows, low_precision_rows
from graph_opt.table_files.low_precision_names import LOW_PRECISION
from tests.embedding.lookup_groups import IdBags, in_session, random_bags
from tests.plain_sessions import plain_session

WIDTHS = [1, 3, 4, 8, 10, 16, 17, 20, 32, 67]
ROWS = 23


def rows_of(random: np.random.RandomState, rows: int, width: int) -> np.ndarray:
    values = random.randn(rows, width).astype(np.float32)
    values[::7] = 0.0
    return values


def grouped(
    tables: List[Any], bags: List[IdBags], combiners: List[str], weighted: bool, **changes: Any
) -> List[tf.Tensor]:
    """One lookup for each table, by one op; the parts of a table are a list."""
    shards = [table if isinstance(table, list) else [table] for table in tables]
    sparse = [bag.sparse() for bag in bags]
    ids = GroupIds(
        [each.values for each in sparse],
        [each.indices for each in sparse],
        [each.dense_shape for each in sparse],
        [bag.sparse_weights().values for bag in bags] if weighted else [],
    )
    attributes = GroupAttributes(
        lookup_tables=list(range(len(tables))),
        table_shards=[len(each) for each in shards],
        table_names=["t{}".format(number) for number in range(len(tables))],
        combiners=combiners,
        layouts=["sparse"] * len(tables),
        weighted=[weighted] * len(tables),
        default_ids=[-1] * len(tables),
        partition_strategies=["div"] * len(tables),
    )
    dtypes = changes.pop("dtypes", [tf.float32] * len(tables))
    flat = [shard for each in shards for shard in each]
    return group_embedding_lookup(flat, ids, attributes._replace(**changes), dtypes)


def stock(values: Any, bags: IdBags, combiner: str, weighted: bool) -> tf.Tensor:
    weights = bags.sparse_weights() if weighted else None
    return tf.nn.safe_embedding_lookup_sparse(
        values, bags.sparse(), weights, combiner, partition_strategy="div"
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("dtype", LOW_PRECISION)
def test_they_are_those_of_the_same_values(dtype: str, combiner: str, weighted: bool) -> None:
    """Bags of none, one and many ids, some of them dropped."""
    random = np.random.RandomState(7)
    with tf.Graph().as_default():
        stored, values = [], []
        for width in WIDTHS:
            rows = low_precision_rows(rows_of(random, ROWS, width), tf.as_dtype(dtype))
            stored.append(tf.constant(rows))
            values.append(tf.constant(float_rows(rows, [ROWS, width])))
        bags = [random_bags(random, 12, ROWS) for _ in WIDTHS]
        pooled = grouped(stored, bags, [combiner] * len(WIDTHS), weighted)
        assert [each.shape.as_list()[-1] for each in pooled] == WIDTHS
        separate = [stock(v, bag, combiner, weighted) for v, bag in zip(values, bags)]
        for got, expected in zip(*in_session([pooled, separate])):
            if weighted:
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", LOW_PRECISION)
def test_partitioned_tables_and_columns_of_one_tensor(dtype: str) -> None:
    """Beside a table of float32."""
    random = np.random.RandomState(3)
    whole, part = rows_of(random, 10, 5), rows_of(random, 11, 12)
    low = low_precision_rows(part, tf.as_dtype(dtype))
    with tf.Graph().as_default():
        bags = [random_bags(random, 6, 10), random_bags(random, 6, 11)]
        tables = [tf.constant(whole), [tf.constant(low[:6]), tf.constant(low[6:])]]
        (pooled,) = grouped(
            tables, bags, ["sum", "mean"], False,
            columns=[12, 0], columns_width=17, dtypes=[tf.float32],
        )  # fmt: skip
        values = tf.constant(float_rows(low, part.shape))
        expected = tf.concat(
            [stock(values, bags[1], "mean", False), stock(whole, bags[0], "sum", False)], 1
        )
        assert pooled.shape.as_list() == [6, 17]
        got, wanted = in_session([pooled, expected])
        np.testing.assert_array_equal(got, wanted)


def test_int8_is_fed_and_its_difference_is_bounded() -> None:
    """Half a scale for each element of each row, added up."""
    random = np.random.RandomState(5)
    rows = rows_of(random, ROWS, 16)
    bags = random_bags(random, 30, ROWS)
    with tf.Graph().as_default():
        table = tf.placeholder(tf.int8, [None, None])
        scales = tf.constant(np.abs(rows).max(axis=1, keepdims=True) / 127 / 2)
        (pooled,) = grouped([table], [bags], ["sum"], False)
        exact = stock(tf.constant(rows), bags, "sum", False)
        bound = stock(scales, bags, "sum", False)
        with plain_session() as session:
            feeds = {table: low_precision_rows(rows, tf.int8)}
            got, expected, most = session.run([pooled, exact, bound], feeds)
    assert np.any(got != expected)
    assert np.all(np.abs(got - expected) <= most * (1 + 1e-5) + 1e-6)


def test_dense_ids_copy_rows() -> None:
    random = np.random.RandomState(2)
    with tf.Graph().as_default():
        for dtype in LOW_PRECISION:
            for width in WIDTHS:
                low = low_precision_rows(rows_of(random, ROWS, width), tf.as_dtype(dtype))
                ids = tf.constant(random.randint(0, ROWS, 200))
                attributes = GroupAttributes(
                    [0], [1], ["t"], ["mean"], ["dense"], [False], [-1], safe=False
                )
                none = tf.zeros([0], tf.int64)
                group = GroupIds([ids], [none], [none], [])
                pooled = group_embedding_lookup([tf.constant(low)], group, attributes, [tf.float32])
                expected = tf.gather(float_rows(low, [ROWS, width]), ids)
                got, wanted = in_session([pooled[0], expected])
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    "table, dtypes, message",
    [
        (np.zeros([3, 4], np.int8), [tf.float32], "table 't0' of int8 has shape .* need .rows, 4"),
        (np.zeros([3, 8], np.int8), [tf.half], "is of int8, pooled_dtypes says half"),
        (np.zeros([3, 8], np.int8), [tf.float32], "id 5 in row 0 .* not in .0, 3., .*'t0'"),
    ],
)
def test_bad_input_is_told(table: np.ndarray, dtypes: List[Any], message: str) -> None:
    bags = IdBags([[5]], [[1.0]])
    with tf.Graph().as_default(), plain_session() as session:
        fed = tf.placeholder(tf.int8, [None, None])
        (pooled,) = grouped([fed], [bags], ["sum"], False, dtypes=dtypes)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(pooled, {fed: table})


def test_training_has_no_int8() -> None:
    with tf.Graph().as_default():
        weights = tf.constant([1.0])
        table = tf.constant(low_precision_rows(np.ones([3, 4], np.float32), tf.int8))
        one = tf.constant([0], tf.int64)
        place, shape = tf.constant([[0, 0]], tf.int64), tf.constant([1, 1], tf.int64)
        ids = GroupIds([one], [place], [shape], [weights])
        attributes = GroupAttributes([0], [1], ["t"], ["sum"], ["sparse"], [True], [-1])
        (pooled,) = group_embedding_lookup([table], ids, attributes, [tf.float32])
        with pytest.raises(tf.errors.UnimplementedError, match="train those of float32"):
            tf.gradients(pooled, weights)
