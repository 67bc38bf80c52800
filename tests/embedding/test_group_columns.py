"""Groups whose results are columns of one tensor, compared with groups of separate results."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from graph_opt.ops.group_embedding import (
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
    group_embedding_lookup,
)
from tests.embedding.lookup_groups import in_session, random_bags, table
from tests.plain_sessions import plain_session
from tests.quick_cases import one_of_each

WIDTHS = (3, 16, 5)
COMBINERS = ["mean", "sum", "sqrtn", "mean"]  # of the three tables, and of the second one again
COLUMNS = [21, 5, 0, 24]
WIDTH = 40


def tables_of(use_resource: bool, dtype: Any = tf.float32) -> List[Any]:
    return [
        table("t{}".format(i), 13, width, use_resource, 1 + i, dtype)
        for i, width in enumerate(WIDTHS)
    ]


def shards_of(tables: List[Any]) -> List[Any]:
    return [part for one in tables for part in parts_of(one)]


def separate_and_joined(
    tables: List[Any], weighted: bool, seed: int = 5
) -> Tuple[List[tf.Tensor], tf.Tensor, Any]:
    """The results of one group in both forms."""
    random = np.random.RandomState(seed)
    bags = [random_bags(random, 7, 13) for _ in COMBINERS]
    separate = group_embedding_lookup_sparse(
        [*tables, tables[1]],
        [bag.sparse() for bag in bags],
        COMBINERS,
        sp_weights=[bag.sparse_weights() for bag in bags] if weighted else None,
    )
    op = separate[0].op
    attributes = GroupAttributes.of(op)._replace(columns=COLUMNS, columns_width=WIDTH)
    shards, ids = inputs_of(op)
    joined = group_embedding_lookup(shards, ids, attributes, [separate[0].dtype])
    assert len(joined) == 1
    return separate, joined[0], attributes


def inputs_of(op: tf.Operation) -> Tuple[List[tf.Tensor], GroupIds]:
    attributes = GroupAttributes.of(op)
    num = len(attributes.lookup_tables)
    shards = sum(attributes.table_shards)
    lists = [list(op.inputs[shards + i * num : shards + (i + 1) * num]) for i in range(3)]
    ids = GroupIds(lists[0], lists[1], lists[2], weights=list(op.inputs[shards + 3 * num :]))
    return list(op.inputs[:shards]), ids


def columns_of(joined: Any, lookup: int) -> Any:
    width = WIDTHS[[0, 1, 2, 1][lookup]]
    return joined[:, COLUMNS[lookup] : COLUMNS[lookup] + width]


@pytest.mark.parametrize(
    "use_resource, weighted, dtype",
    one_of_each([False, True], [False, True], [tf.float32, tf.float16, tf.bfloat16]),
)
def test_columns_are_the_results(use_resource: bool, weighted: bool, dtype: Any) -> None:
    separate, joined, _ = separate_and_joined(tables_of(use_resource, dtype), weighted)
    assert joined.dtype == dtype and joined.shape.as_list() == [7, WIDTH]
    wide = [tf.cast(one, tf.float32) for one in [*separate, joined]]
    *expected, got = in_session(wide)
    for lookup, one in enumerate(expected):
        np.testing.assert_array_equal(columns_of(got, lookup), one)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("use_resource", [False, True])
def test_gradients_are_those_of_separate_results(use_resource: bool, weighted: bool) -> None:
    tables = tables_of(use_resource)
    separate, joined, _ = separate_and_joined(tables, weighted)
    sources = shards_of(tables) + inputs_of(joined.op)[1].weights
    results = []
    for pooled in (separate, [columns_of(joined, i) for i in range(4)]):
        loss = tf.add_n([tf.reduce_sum(tf.sin(one) * (i + 1.5)) for i, one in enumerate(pooled)])
        results.append([tf.convert_to_tensor(g) for g in tf.gradients(loss, sources)])
    expected, got = in_session(results)
    for one, other in zip(got, expected):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_update_takes_one_gradient(use_resource: bool) -> None:
    after = []
    for is_joined in (False, True):
        with tf.Graph().as_default():
            tables = tables_of(use_resource)
            separate, joined, attributes = separate_and_joined(tables, False)
            gradient = tf.constant(np.random.RandomState(1).randn(7, WIDTH).astype(np.float32))
            gradients = [columns_of(gradient, i) for i in range(4)]
            _, ids = inputs_of(joined.op)
            references = [
                part.handle if use_resource else part.op.outputs[0] for part in shards_of(tables)
            ]
            train = group_embedding_apply(
                "GradientDescent",
                references,
                [],
                [tf.constant(0.1)],
                ids,
                attributes if is_joined else GroupAttributes.of(separate[0].op),
                [gradient] if is_joined else gradients,
            )
            with plain_session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                after.append(session.run(shards_of(tables)))
    for one, other in zip(*after):
        np.testing.assert_array_equal(one, other)


def test_columns_that_do_not_fit_are_errors() -> None:
    tables = [table("t0", 9, 3, False), table("t1", 9, 4, False)]
    pooled = group_embedding_lookup_sparse(tables, [tf.constant([1, 2])] * 2, "sum")
    shards, ids = inputs_of(pooled[0].op)
    attributes = GroupAttributes.of(pooled[0].op)
    dtypes = [tf.float32]

    def lookup(columns: List[int], width: int, shards: Any = shards, ids: Any = ids) -> tf.Tensor:
        joined = attributes._replace(columns=columns, columns_width=width)
        return group_embedding_lookup(shards, ids, joined, dtypes)[0]

    with pytest.raises(ValueError, match="lookup 0 has 2 columns, and table 't0' is 3 wide"):
        lookup([0, 2], 7)
    with pytest.raises(ValueError, match="columns of lookup 0 begin at 1"):
        lookup([1, 4], 8)
    with pytest.raises(ValueError, match="columns of lookup 0 begin at 0 and the next ones at 0"):
        lookup([0, 0], 4)
    with pytest.raises(ValueError, match="columns has 1 entries, need one for each of the 2"):
        lookup([0], 3)
    dtypes = [tf.float32] * 2
    with pytest.raises(ValueError, match="pooled_dtypes has 2 entries, need 1"):
        lookup([0, 3], 7)
    dtypes = [tf.float32]
    fewer = tf.placeholder_with_default(tf.constant([1], tf.int32), [None])
    other_rows = ids._replace(ids=[ids.ids[0], fewer])
    hidden = [tf.placeholder_with_default(shard, [None, None]) for shard in shards]
    with pytest.raises(tf.errors.InvalidArgumentError, match="lookup 1 in table 't1' has rows"):
        in_session(lookup([0, 3], 7, ids=other_rows))
    with pytest.raises(tf.errors.InvalidArgumentError, match="and table 't1' is 4 wide"):
        in_session(lookup([0, 3], 8, shards=hidden))
