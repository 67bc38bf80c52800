"""Weights that add up to 0, in ops and in functors: zeros, or what a division gives."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import (
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
    group_embedding_lookup,
)
from graph_opt.ops.packed_embedding import ShardPlacement
from tests.conftest import MadeOnce
from tests.embedding.lookup_groups import in_session, table
from tests.ops.compiled_functors import QUICK, build, run
from tests.ops.packed_groups import PackedGroup
from tests.weighted_lookups import cancelling

ROWS = 17


def test_functors_divide_by_them(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, "totals_of_0_test.cc", QUICK))


@pytest.mark.parametrize(
    "bad", [dict(safe=True), dict(weighted=[False]), dict(default_ids=[2])], ids=str
)
def test_a_combiner_that_may_give_nan_is_of_weights_alone(bad: Dict[str, Any]) -> None:
    attributes = GroupAttributes([0], [1], ["t"], ["mean_or_nan"], ["dense"], [True], [-1])
    attributes = attributes._replace(safe=False)._replace(**bad)
    empty = [tf.constant([], tf.int64)]
    weights = [tf.ones([1, 2])] if attributes.weighted[0] else []
    ids = GroupIds([tf.constant([[1, 2]])], empty, empty, weights)
    tables = [table("t", ROWS, 3, False)]
    rows = group_embedding_lookup(tables, ids, attributes, [tf.float32])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is mean_or_nan, which needs weights"):
        in_session(rows)


@pytest.mark.parametrize("pool_on_server", ["never", "always"])
def test_totals_of_0_give_the_same_in_packed_lookups_and_updates(pool_on_server: str) -> None:
    bags = cancelling(3, 12, ROWS)
    attributes = GroupAttributes(
        lookup_tables=[0] * 4,
        table_shards=[1],
        table_names=["t"],
        combiners=["mean_or_nan", "mean", "sqrtn_or_nan", "sqrtn"],
        layouts=["sparse"] * 4,
        weighted=[True] * 4,
        default_ids=[-1] * 4,
        safe=False,
    )
    ids = GroupIds(
        [tf.constant(bags["values"])] * 4,
        [tf.constant(bags["indices"][:, 0])] * 4,
        [tf.constant([], tf.int64)] * 4,
        [tf.constant(bags["weights"])] * 4,
    )
    values = np.random.RandomState(1).randn(ROWS, 19).astype(np.float32)
    tables = [tf.get_variable(name, initializer=values, use_resource=False) for name in "ab"]
    gradients = [tf.sin(values[:12] * number) for number in range(4)]
    local = group_embedding_lookup([tables[0]], ids, attributes, [tf.float32] * 4)
    placement = ShardPlacement([ROWS], [0], 1)
    group = PackedGroup([tables[1]], ["b"], ids, attributes, placement, [19], tf.float32)
    group = group._replace(pool_on_server=pool_on_server)
    pooled, packed_rows = in_session([local, group.look_up()])
    np.testing.assert_array_equal(packed_rows, pooled)
    assert [np.isfinite(rows).all() for rows in pooled] == [False, True, False, True]
    rate = tf.constant(0.1)
    one, other = (table.op.outputs[0] for table in tables)
    updates = [
        group_embedding_apply("GradientDescent", [one], [], [rate], ids, attributes, gradients),
        group.apply("GradientDescent", [other], [], [rate], gradients),
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(updates)
        updated, packed_table = session.run(tables)
    np.testing.assert_array_equal(packed_table, updated)
    assert 0 < np.isnan(updated).all(1).sum() < ROWS
