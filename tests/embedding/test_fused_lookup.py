"""DeepRec's single-table lookups compared with TensorFlow's."""

from __future__ import annotations

import itertools
from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.fused_lookup import (
    fused_embedding_lookup_sparse,
    fused_safe_embedding_lookup_sparse,
)
from tests.embedding.lookup_groups import IdBags, in_session, table
from tests.quick_cases import slow_but

BAGS = IdBags([[1, 3, 3], [], [2, 0], []], [[0.5, 2.0, 1.0], [], [1.0, 3.0], []])
WITH_BAD = IdBags([[1, -3, 3], [-1], [2, 0], []], [[0.5, 2.0, 0.0], [1.0], [1.0, 3.0], []])


def group_lookups() -> int:
    operations = tf.get_default_graph().get_operations()
    return sum("GroupEmbeddingLookup" in op.type for op in operations)


def gradients_of(results: List[Any], parts: Any) -> List[Any]:
    return [tf.convert_to_tensor(tf.gradients(tf.sin(result), parts)[0]) for result in results]


@pytest.mark.parametrize(
    "strategy, shards", slow_but(itertools.product(["mod", "div"], [1, 3]), ("mod", 1), ("div", 3))
)
def test_safe_lookups_are_tensorflows_in_one_op(shards: int, strategy: str) -> None:
    params = table("t", 9, 4, False, shards)
    ids, weights = WITH_BAD.sparse(), WITH_BAD.sparse_weights()
    expected, got = [], []
    for combiner, default_id in itertools.product(["sum", "mean", "sqrtn"], [None, 2]):
        for weighted in (None, weights):
            arguments = (params, ids, weighted, combiner, default_id)
            expected.append(
                tf.nn.safe_embedding_lookup_sparse(*arguments, partition_strategy=strategy)
            )
            got.append(fused_safe_embedding_lookup_sparse(*arguments, None, strategy))
    assert group_lookups() == len(got)
    for one, other in zip(*in_session([got, expected])):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_gradients_and_shapes_are_tensorflows() -> None:
    params = table("t", 9, 4, False)
    results = [
        lookup(params, BAGS.sparse(), None, "mean")
        for lookup in (fused_safe_embedding_lookup_sparse, tf.nn.safe_embedding_lookup_sparse)
    ]
    assert results[0].shape.as_list() == results[1].shape.as_list()
    one, other = in_session(gradients_of(results, [params]))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_defaults_are_those_of_a_plain_lookup() -> None:
    params = table("t", 9, 4, True)
    full = IdBags([[1, 3, 3], [4], [2, 0]], [])
    got = fused_embedding_lookup_sparse(params, full.sparse())
    expected = tf.nn.embedding_lookup_sparse(params, full.sparse(), None, combiner="mean")
    assert group_lookups() == 1
    one, other = in_session([got, expected])
    np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("max_norm", [None, 0.3])
def test_every_option(max_norm: Any) -> None:
    params = table("t", 9, 4, False)
    ids, weights = BAGS.sparse(), BAGS.sparse_weights()
    plain = tf.nn.embedding_lookup_sparse(params, ids, weights, combiner="sum", max_norm=max_norm)
    filled = tf.concat([plain, tf.zeros([1, 4])], axis=0)
    row = tf.nn.embedding_lookup(params, [[2]], max_norm=max_norm)[0]
    defaulted = tf.concat([plain[:1], row, plain[2:], row], axis=0)
    pruned = tf.nn.safe_embedding_lookup_sparse(
        params, WITH_BAD.sparse(), WITH_BAD.sparse_weights(), "sum", max_norm=max_norm
    )

    def fused(bags: Any, **options: Any) -> Any:
        return fused_embedding_lookup_sparse(
            params, bags.sparse(), bags.sparse_weights(), None, None, "sum", max_norm, **options
        )

    expected = [plain, filled, defaulted, pruned, pruned[:3]]
    got = [
        fused(BAGS, fill_empty_row=False),
        fused(BAGS),
        fused(BAGS, default_id=2),
        fused(WITH_BAD, prune_invalid_ids=True),
        fused(WITH_BAD, prune_invalid_ids=True, fill_empty_row=False),
    ]
    for one, other in zip(*in_session([got, expected])):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_totals_of_0_give_zeros_whichever_ops_look_up(combiner: str) -> None:
    params = table("t", 9, 4, False)
    bags = IdBags([[1, 3], [], [4], [2, 0]], [[0.5, -0.5], [], [0.0], [1.0, 3.0]])

    def looked_up(**options: Any) -> Any:
        ids, weights = bags.sparse(), bags.sparse_weights()
        return fused_embedding_lookup_sparse(params, ids, weights, combiner=combiner, **options)

    ours = looked_up()
    stock = [looked_up(max_norm=99.0), looked_up(fill_empty_row=False)]
    assert group_lookups() == 1
    expected, *found = in_session([ours, *stock])
    assert not expected[1:3].any()
    for rows in found:
        np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_ids_that_are_not_pruned_are_errors() -> None:
    params = table("t", 9, 4, False)
    for clipped in (None, 0.5):
        bad = fused_embedding_lookup_sparse(params, WITH_BAD.sparse(), max_norm=clipped)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"-3|-1"):
            in_session(bad)


def test_options_that_do_not_exist_here_are_errors() -> None:
    params, ids = table("t", 9, 4, False), BAGS.sparse()
    with pytest.raises(ValueError, match="dynamic dimension"):
        fused_embedding_lookup_sparse(params, ids, blocknums=tf.constant([1]))
    with pytest.raises(ValueError, match="'mod_ev'; need one of mod, div"):
        fused_embedding_lookup_sparse(params, ids, partition_strategy="mod_ev")
    with pytest.raises(ValueError, match="default_id is '1'; need an integer"):
        fused_embedding_lookup_sparse(params, ids, default_id="1")  # type: ignore[arg-type]
