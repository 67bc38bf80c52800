"""Lookups that the model itself writes as one op each become one op together."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.embedding.fused_lookup import (
    fused_embedding_lookup_sparse,
    fused_safe_embedding_lookup_sparse,
)
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
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


def group(
    inputs: Inputs, tables: str = "abc", resource: bool = False, shards: int = 1, safe: bool = True
) -> List[Any]:
    """One op of the model's for all its lookups."""
    ids, more = (tf.sparse.from_dense(inputs[name]) for name in ("ids", "more"))
    ids = ids if safe else more  # some of the others are below 0
    weights = models.weights_of(more, inputs["weight"])
    made = {name: models.table(name, 2 + ord(name) % 3, resource, shards) for name in set(tables)}
    one, two, three = (made[name] for name in tables)
    requests = [
        LookupRequest(one, ids, "mean"),
        LookupRequest(two, more, "sum", weights),
        LookupRequest(three, ids, "sqrtn", default_id=3),
    ]
    return lookup_group(requests, safe=safe)


def nodes(trained: models.Trained, op: str) -> List[Any]:
    found = [each for each in running_graph_def(trained.graph).node if each.op.endswith(op)]
    return [node for node in found if node.name.startswith("group_embedding/")]


@pytest.mark.parametrize("optimizer", slow_but(["adagrad", "adam", "momentum"], "momentum"))
@pytest.mark.parametrize(
    "options",
    [{}, {"resource": True}, {"shards": 3}, {"safe": False}, {"resource": True, "safe": False}],
)
def test_a_group_of_the_models_writes_what_is_concatenated_side_by_side(
    options: Dict[str, Any], optimizer: str
) -> None:
    def lookups(inputs: Inputs) -> List[Any]:
        return group(inputs, **options)

    fused = models.train(lookups, optimizer, models.config())
    assert_equal(fused, models.train(lookups, optimizer))
    (lookup,) = nodes(fused, "GroupEmbeddingLookup")
    assert len(lookup.attr["columns"].list.i) == 3
    if optimizer == "momentum":  # Adam may defer what it does
        (update,) = nodes(fused, "GroupEmbeddingApply")
        assert len(update.attr["columns"].list.i) == 3
    assert {lookup.gradient for lookup in fused.report.fused_lookups} == {"fused"}


def test_groups_of_the_models_become_one() -> None:
    def lookups(inputs: Inputs) -> List[Any]:
        with tf.variable_scope("other"):
            more = group(inputs)
        return [*group(inputs), *more]

    fused = models.train(lookups, options=models.config())
    assert_equal(fused, models.train(lookups))
    assert len(set(groups(fused))) == 1 and len(fused.report.fused_lookups) == 6


def test_a_group_with_a_table_that_it_looks_up_twice_stays_as_it_is() -> None:
    def lookups(inputs: Inputs) -> List[Any]:
        return group(inputs, "aba")

    fused = models.train(lookups, options=models.config())
    assert_equal(fused, models.train(lookups))
    assert not nodes(fused, "GroupEmbeddingLookup")
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}


def test_a_group_of_which_not_all_may_be_fused_stays_as_it_is() -> None:
    options = models.config(lookups=["^[ab]$"])
    fused = models.train(group, options=options)
    assert_equal(fused, models.train(group))
    assert not nodes(fused, "GroupEmbeddingLookup")


def test_what_else_reads_a_group_of_the_models_reads_it_still() -> None:
    def lookups(inputs: Inputs) -> List[Any]:
        one, two, three = group(inputs)
        return [one, two, three, tf.square(two)]

    fused = models.train(lookups, options=models.config())
    assert_equal(fused, models.train(lookups))
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}
