"""Lookups that the model itself writes as one op each become one op together."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.embedding.fused_lookup import (
    fused_embedding_lookup_sparse,
    fused_safe_embedding_lookup_sparse,
)
from tests.passes import fused_models as models
from tests.passes.fusion.test_fuse_group_embedding import assert_equal
from tests.quick_cases import slow_but

Inputs = Dict[str, Any]
Lookups = Callable[[Inputs], List[Any]]
STOCK = tf.nn.safe_embedding_lookup_sparse
OWN = fused_safe_embedding_lookup_sparse


def sequences(look_up: Callable[..., Any], resource: bool = False, shards: int = 1) -> Lookups:
    """The rows of a history, step by step, and two bags of tables that it shares."""

    def lookups(inputs: Inputs) -> List[Any]:
        item = models.table("item", 4, resource, shards)
        category = models.table("category", 3, resource, shards)
        ids, more = (tf.sparse.from_dense(inputs[name]) for name in ("ids", "more"))
        steps = tf.sparse.reshape(ids, [-1, 1])
        rows = tf.reshape(look_up(item, steps), [models.BATCH, 3, 4])
        weights = models.weights_of(more, inputs["weight"])
        return [
            tf.reduce_sum(rows * rows, axis=1),
            look_up(item, more, weights, combiner="sum"),
            look_up(category, more, default_id=2),
        ]

    return lookups


def groups(trained: models.Trained) -> List[str]:
    return [lookup.group for lookup in trained.report.fused_lookups]


@pytest.mark.parametrize("optimizer", slow_but(["adagrad", "adam", "momentum"], "adagrad"))
@pytest.mark.parametrize("resource, shards", slow_but([(False, 1), (True, 3)], (True, 3)))
def test_they_train_as_tensorflows_do(resource: bool, shards: int, optimizer: str) -> None:
    own = sequences(OWN, resource, shards)
    fused = models.train(own, optimizer, models.config())
    assert_equal(fused, models.train(sequences(STOCK, resource, shards), optimizer))
    assert len(groups(fused)) == 3 and len(set(groups(fused))) == 2  # two of them are joined
    assert {lookup.update for lookup in fused.report.fused_lookups} <= {"fused", "deferred"}
    assert {lookup.gradient for lookup in fused.report.fused_lookups} == {"fused"}


def test_one_op_does_both_those_of_the_model_and_of_tensorflow() -> None:
    def lookups(look_up: Callable[..., Any]) -> Lookups:
        def both(inputs: Inputs) -> List[Any]:
            table = models.table("one")
            ids, more = (tf.sparse.from_dense(inputs[name]) for name in ("ids", "more"))
            return [STOCK(table, ids), look_up(table, more), look_up(models.table("two"), ids)]

        return both

    fused = models.train(lookups(OWN), options=models.config())
    assert_equal(fused, models.train(lookups(STOCK)))
    assert len(set(groups(fused))) == 1


def test_the_same_lookup_twice_gets_each_gradient_once() -> None:
    def lookups(look_up: Callable[..., Any]) -> Lookups:
        def twice(inputs: Inputs) -> List[Any]:
            table, ids = models.table("one"), tf.sparse.from_dense(inputs["ids"])
            return [look_up(table, ids), 3.0 * look_up(table, ids)]

        return twice

    fused = models.train(lookups(OWN), options=models.config())
    assert_equal(fused, models.train(lookups(STOCK)))


def test_lookups_that_nothing_can_join_stay_as_they_are() -> None:
    def lookups(inputs: Inputs) -> List[Any]:
        ids, more = (tf.sparse.from_dense(inputs[name]) for name in ("ids", "more"))
        unpruned = fused_embedding_lookup_sparse(models.table("two"), more, combiner="sum")
        return [OWN(models.table("one"), ids), unpruned]

    fused = models.train(lookups, options=models.config())
    stock = models.train(lookups)
    assert_equal(fused, stock)
    assert sorted(groups(fused)) == sorted(lookup.group for lookup in fused.report.fused_lookups)
    names = {operation.name for operation in stock.graph.get_operations()}
    assert set(groups(fused)) <= names and len(set(groups(fused))) == 2
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}


def test_a_group_that_is_too_small_leaves_the_op_of_the_model() -> None:
    fused = models.train(sequences(OWN), options=models.config(minimum_lookups=9))
    assert_equal(fused, models.train(sequences(STOCK)))
    assert all(group.startswith("fused_safe") for group in groups(fused))
    assert [lookup.refusals for lookup in fused.report.fused_lookups] == [()] * 3


def test_they_run_ahead_together() -> None:
    config = models.config(prefetch=True)
    fused = models.train(sequences(OWN), options=config)
    assert {lookup.stage for lookup in fused.report.lookups} == {"async_embedding"}
    assert len(fused.report.lookups) == 2
