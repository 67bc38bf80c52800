"""Group lookups compared with `tf.nn.safe_embedding_lookup_sparse`: values, ids, bad input."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import (
    LookupRequest,
    group_embedding_lookup_sparse,
    lookup_group,
)
from tests.embedding.lookup_groups import IdBags, in_session, random_bags, table
from tests.example_share import example_share
from tests.plain_sessions import plain_session

COMBINERS = ("sum", "mean", "sqrtn")


def stock(params: Any, bags: IdBags, combiner: str, weighted: bool, strategy: str) -> tf.Tensor:
    weights = bags.sparse_weights() if weighted else None
    return tf.nn.safe_embedding_lookup_sparse(
        params, bags.sparse(), weights, combiner, partition_strategy=strategy
    )


@example_share(0.05)
@given(
    seed=st.integers(0, 10**6),
    use_resource=st.booleans(),
    weighted=st.booleans(),
    partitions=st.integers(1, 3),
    strategy=st.sampled_from(["mod", "div"]),
    ids=st.sampled_from(["sparse", "ragged", "dense"]),
    dtype=st.sampled_from([tf.int32, tf.int64]),
)
def test_a_group_equals_separate_lookups(
    seed: int,
    use_resource: bool,
    weighted: bool,
    partitions: int,
    strategy: str,
    ids: str,
    dtype: Any,
) -> None:
    random = np.random.RandomState(seed)
    with tf.Graph().as_default():
        widths = random.choice([1, 2, 5, 8, 16, 19, 40], 3)
        tables = [
            table("t{}".format(i), 11 + 7 * i, width, use_resource, partitions)
            for i, width in enumerate(widths)
        ]
        tables.append(tables[0])
        rows = random.randint(1, 9)
        bags = [random_bags(random, rows, 11) for _ in tables]
        combiners = [str(c) for c in random.choice(COMBINERS, 4)]
        weighted = weighted and ids != "dense"
        weights = [getattr(bag, ids + "_weights")() for bag in bags] if weighted else None
        grouped = group_embedding_lookup_sparse(
            tables,
            [getattr(bag, ids)(dtype) for bag in bags],
            combiners,
            partition_strategy=strategy,
            sp_weights=weights,
        )
        separate = [
            stock(*arguments, weighted, strategy) for arguments in zip(tables, bags, combiners)
        ]
        assert [g.shape.ndims for g in grouped] == [2] * 4
        for got, expected in zip(*in_session([grouped, separate])):
            if weighted:
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("combiner", COMBINERS)
def test_long_bags_add_in_the_order_of_stock(combiner: str) -> None:
    random = np.random.RandomState(1)
    lengths = list(range(1, 40)) + [100, 1000]
    bags = IdBags([random.randint(0, 50, length).tolist() for length in lengths], [])
    params = table("t", 50, 21, use_resource=False)
    grouped = group_embedding_lookup_sparse([params], [bags.sparse()], combiner)[0]
    got, expected = in_session([grouped, stock(params, bags, combiner, False, "mod")])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("use_resource", [False, True])
def test_tables_of_16_bits_are_summed_in_float32(dtype: Any, use_resource: bool) -> None:
    random = np.random.RandomState(2)
    params = table("t", 30, 21, use_resource, dtype=dtype)
    bags = random_bags(random, 40, 30)
    grouped = group_embedding_lookup_sparse([params], [bags.sparse()], "sum")[0]
    assert grouped.dtype == dtype
    wide = tf.cast(params, tf.float32)
    expected = tf.cast(stock(wide, bags, "sum", False, "mod"), dtype)
    got, wanted = in_session([tf.cast(grouped, tf.float32), tf.cast(expected, tf.float32)])
    np.testing.assert_array_equal(got, wanted)


def test_tables_of_different_types_and_kinds_share_a_call() -> None:
    random = np.random.RandomState(3)
    tables = [
        table("ref", 9, 3, use_resource=False),
        table("resource", 9, 4, use_resource=True),
        table("half", 9, 5, use_resource=True, dtype=tf.float16),
    ]
    bags = [random_bags(random, 4, 9) for _ in tables]
    pooled = group_embedding_lookup_sparse(tables, [bag.sparse() for bag in bags], "mean")
    assert [p.dtype for p in pooled] == [tf.float32, tf.float32, tf.float16]
    assert len({p.op for p in pooled}) == 2
    separate = [stock(p, bag, "mean", False, "mod") for p, bag in zip(tables, bags)]
    got, expected = in_session([pooled, separate])
    for one, other in zip(got[:2], expected[:2]):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(got[2], expected[2], rtol=2e-3, atol=1e-3)


def test_ids_of_three_dimensions_keep_their_outer_shape() -> None:
    params = table("t", 9, 4, use_resource=False)
    indices = [[0, 0, 1], [0, 2, 0], [1, 1, 0], [1, 1, 1]]
    values = tf.constant([3, 4, 5, 6], tf.int64)
    ids = tf.SparseTensor(np.array(indices, np.int64), values, [2, 3, 2])
    grouped = group_embedding_lookup_sparse(params, ids, "mean")[0]
    assert grouped.shape.as_list() == [2, 3, 4]
    got, expected = in_session([grouped, tf.nn.safe_embedding_lookup_sparse(params, ids)])
    np.testing.assert_array_equal(got, expected)


def test_a_vector_of_ids_gives_a_row_for_each() -> None:
    params = table("t", 9, 4, use_resource=True)
    grouped = group_embedding_lookup_sparse(params, tf.constant([8, 0, 8]), "mean")[0]
    got, rows = in_session([grouped, params])
    np.testing.assert_array_equal(got, rows[[8, 0, 8]])


def test_an_empty_row_gives_the_default_row() -> None:
    params = table("t", 9, 4, use_resource=False)
    bags = IdBags([[1, 2], [], [-1]], [])
    grouped = lookup_group([LookupRequest(params, bags.sparse(), "mean", default_id=7)])[0]
    expected = tf.nn.safe_embedding_lookup_sparse(params, bags.sparse(), default_id=7)
    np.testing.assert_array_equal(*in_session([grouped, expected]))


@pytest.mark.parametrize("rows", [0, 3])
def test_no_ids_at_all(rows: int) -> None:
    params = table("t", 9, 4, use_resource=False)
    grouped = group_embedding_lookup_sparse(params, IdBags([[]] * rows, []).sparse(), "mean")[0]
    np.testing.assert_array_equal(in_session(grouped), np.zeros([rows, 4], np.float32))


def test_both_argument_orders_are_accepted() -> None:
    params = table("t", 9, 4, use_resource=False, partitions=2)
    bags = IdBags([[1, 2, 8]], [[0.5, 1.0, 2.0]])
    arguments = ([params], [bags.sparse()], ["mean"])
    weights = [bags.sparse_weights()]
    calls = [
        group_embedding_lookup_sparse(*arguments, "div", weights),
        group_embedding_lookup_sparse(*arguments, weights, "div"),
        group_embedding_lookup_sparse(*arguments, sp_weights=weights, partition_strategy="div"),
    ]
    first, second, third = in_session(calls)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    unweighted = group_embedding_lookup_sparse(*arguments, None)
    assert not np.array_equal(in_session(unweighted), first)


def test_negative_weights_count_in_a_sum_and_nan_ones_do_as_in_stock() -> None:
    params = table("t", 9, 4, use_resource=False)
    bags = IdBags([[1, 2], [3, 4], [5]], [[-1.0, 2.0], [float("nan"), 1.0], [float("nan")]])
    for combiner in COMBINERS:
        grouped = group_embedding_lookup_sparse(
            params, bags.sparse(), combiner, sp_weights=bags.sparse_weights()
        )[0]
        got, expected = in_session([grouped, stock(params, bags, combiner, True, "mod")])
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("use_resource", [False, True])
def test_an_id_out_of_range_is_named_with_table_and_row(use_resource: bool) -> None:
    good = table("good", 99, 4, use_resource)
    params = table("scope/item", 9, 4, use_resource)
    ids = [IdBags([[9]], []).sparse(), IdBags([[1], [2, 9], [10]], []).sparse()]
    pooled = group_embedding_lookup_sparse([good, params], ids, "sum")
    pattern = r"id 9 in row 1 of lookup 1 is not in \[0, 9\), the rows of table 'scope/item'"
    with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
        in_session(pooled)


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_table_that_gets_other_memory_or_more_rows_is_followed(use_resource: bool) -> None:
    """A kernel keeps where its tables were in its last call."""
    variable = tf.get_variable(
        "t", initializer=np.zeros([4, 2], np.float32), use_resource=use_resource
    )
    values = tf.placeholder(tf.float32, [None, None])
    if use_resource:
        change = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=values)
    else:
        change = tf.assign(variable, values, validate_shape=False).op
    ids = tf.placeholder(tf.int64, [None])
    (rows,) = group_embedding_lookup_sparse([variable], [ids], ["sum"])
    with plain_session() as session:
        session.run(variable.initializer)
        for count, width in ((4, 2), (9, 2), (3, 2), (3, 5), (9, 2)):
            table_values = np.random.RandomState(count).rand(count, width).astype(np.float32)
            session.run(change, {values: table_values})
            for _ in range(2):
                found = session.run(rows, {ids: range(count)})
                np.testing.assert_array_equal(found, table_values)
            with pytest.raises(
                tf.errors.InvalidArgumentError, match=r"not in \[0, {}\)".format(count)
            ):
                session.run(rows, {ids: [count]})


def test_an_uninitialized_table_is_named() -> None:
    params = table("item", 9, 4, use_resource=True)
    pooled = group_embedding_lookup_sparse(params, tf.constant([1]), "sum")
    with plain_session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="item"):
        session.run(pooled)


def sparse_of(indices: List[List[int]], values: List[float], dtype: Any) -> tf.SparseTensor:
    return tf.SparseTensor(np.array(indices, np.int64), tf.constant(values, dtype), [3, 3])


def test_a_default_row_that_no_row_needs_may_be_missing_whatever_the_order() -> None:
    params = table("item", 9, 4, use_resource=False)
    backwards = sparse_of([[2, 0], [1, 0], [0, 0]], [1, 2, 3], tf.int64)
    request = LookupRequest(params, backwards, "sum", default_id=100)
    expected = tf.nn.safe_embedding_lookup_sparse(params, backwards, combiner="sum", default_id=100)
    results = [*lookup_group([request]), expected]
    gradients = [tf.gradients(tf.reduce_sum(rows), params)[0] for rows in results]
    np.testing.assert_array_equal(*in_session(results))
    np.testing.assert_array_equal(*in_session([tf.convert_to_tensor(g) for g in gradients]))


def test_a_shape_of_too_many_rows_is_an_error() -> None:
    params = table("item", 9, 4, use_resource=False)
    huge = tf.SparseTensor(np.zeros([1, 2], np.int64), tf.constant([1]), [2**45, 4])
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 35184372088832 rows; need fewer"):
        in_session(group_embedding_lookup_sparse(params, huge, "sum"))


def test_ids_outside_the_rows_and_too_few_weights_are_errors() -> None:
    params = table("item", 9, 4, use_resource=False)
    outside = sparse_of([[0, 0], [3, 0]], [1, 2], tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="or outside the rows"):
        in_session(group_embedding_lookup_sparse(params, outside, "sum"))
    ids = sparse_of([[0, 0], [1, 0]], [1, 2], tf.int64)
    values = tf.placeholder_with_default(tf.constant([1.0]), [None])
    weights = tf.SparseTensor(ids.indices, values, ids.dense_shape)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"2 ids and 1 weights.*table 'item'"):
        in_session(group_embedding_lookup_sparse(params, ids, "sum", sp_weights=weights))


def test_each_bad_argument_has_its_own_message() -> None:
    params = table("item", 9, 4, use_resource=False)
    ids = tf.constant([1])
    sparse = sparse_of([[0, 0]], [1], tf.int64)
    lookup = group_embedding_lookup_sparse
    with pytest.raises(ValueError, match="sp_ids has 1 entries, params has 2"):
        lookup([params, params], [ids], "sum")
    with pytest.raises(ValueError, match="combiners has 2 entries"):
        lookup([params], [ids], ["sum", "mean"])
    with pytest.raises(ValueError, match="sp_weights has 2 entries"):
        lookup([params], [ids], "sum", sp_weights=[None, None])
    with pytest.raises(ValueError, match="combiner 0 is 'max'; need one of sum, mean, sqrtn"):
        lookup([params], [ids], "max")
    with pytest.raises(ValueError, match="unknown partition_strategy 'hash'"):
        lookup([params], [ids], "sum", "hash")
    with pytest.raises(ValueError, match="params is empty"):
        lookup([], [], [])
    with pytest.raises(ValueError, match="rank 1 or 2"):
        lookup(params, tf.zeros([2, 2, 2], tf.int64), "sum")
    with pytest.raises(TypeError, match="float32; need int32 or int64"):
        lookup(params, tf.constant([1.0]), "sum")
    with pytest.raises(TypeError, match=r"sp_ids\[0\] is a object"):
        lookup(params, object(), "sum")
    with pytest.raises(TypeError, match="need the same kind"):
        lookup(params, sparse, "sum", sp_weights=tf.constant([1.0]))
    with pytest.raises(TypeError, match="need a floating-point type"):
        lookup(params, sparse, "sum", sp_weights=sparse)
    with pytest.raises(ValueError, match="need one weight for each id"):
        lookup(params, tf.constant([1, 2]), "sum", sp_weights=tf.constant([1.0]))
    with pytest.raises(ValueError, match="has rank 3; need"):
        lookup(tf.zeros([2, 2, 2]), ids, "sum")
    with pytest.raises(TypeError, match="int32; need one of float32, float16, bfloat16"):
        lookup(tf.zeros([2, 2], tf.int32), ids, "sum")
