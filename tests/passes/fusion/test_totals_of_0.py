"""Weights that add up to 0, in graphs of TensorFlow 1 and of later releases, on one machine."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.passes import fused_models as models
from tests.quick_cases import slow_but
from tests.weighted_lookups import divided, where_finite

Inputs = Dict[str, Any]


def weighted_by_numbers_around_0(inputs: Inputs) -> Tuple[tf.SparseTensor, tf.SparseTensor]:
    """Ids and weights of -1, 0 and 1. The last bag has an id: results end with the last one's."""
    last = tf.concat([tf.zeros_like(inputs["ids"])[:-1], tf.ones_like(inputs["ids"])[-1:]], 0)
    ids = tf.sparse.from_dense(tf.maximum(inputs["ids"], last))
    return ids, models.weights_of(ids, tf.round(inputs["weight"] * 2 - 0.7))


def by_both_rules(shards: int = 1, resource: bool = False) -> Callable[[Inputs], List[Any]]:
    """Lookups of two tables: of each rule one in `shared`, and one in a table of its own."""

    def lookups(inputs: Inputs) -> List[Any]:
        bags = weighted_by_numbers_around_0(inputs)
        shared, mean, sqrtn = (
            models.table(name, 9, resource, shards) for name in ("shared", "mean", "sqrtn")
        )
        return [
            where_finite(divided(shared, *bags, "mean", tf.realdiv)),
            where_finite(divided(shared, *bags, "sqrtn", tf.div_no_nan)),
            where_finite(divided(mean, *bags, "mean", tf.div_no_nan)),
            where_finite(divided(sqrtn, *bags, "sqrtn", tf.realdiv)),
        ]

    return lookups


def assert_same(fused: models.Trained, stock: models.Trained) -> None:
    """Asserts that both trainings have the same numbers, and the same rows have none."""
    np.testing.assert_allclose(fused.losses, stock.losses, rtol=1e-5)
    for name, value in stock.variables.items():
        np.testing.assert_allclose(fused.variables[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert [lookup.update for lookup in fused.report.fused] == ["fused"] * 4
    assert {lookup.combiner for lookup in fused.report.fused} == {"mean", "sqrtn"}
    is_nan = {
        name: np.isnan(value).any()
        for name, value in stock.variables.items()
        if name.split("/")[0] in ("shared", "mean", "sqrtn") and "Adagrad" not in name
    }
    assert {name for name, found in is_nan.items() if not found} == {
        name for name in is_nan if name.startswith("mean")
    }


@pytest.mark.parametrize(
    "shards, resource", slow_but([(1, False), (3, True), (1, True), (3, False)], (1, False))
)
def test_rows_of_such_bags_train_as_the_graph_divides(shards: int, resource: bool) -> None:
    lookups = by_both_rules(shards, resource)
    fused = models.train(lookups, options=models.config())
    stock = models.train(lookups)
    assert_same(fused, stock)
    assert np.isfinite(stock.losses).all()


def test_exact_rows_ahead_of_the_step_are_as_the_graph_divides() -> None:
    config = models.config(prefetch=True)
    config.graph_options.optimizer_options.async_embedding_options.exact = True
    fused = models.train(by_both_rules(), options=config)
    assert len(fused.report.moved) == 4
    assert_same(fused, models.train(by_both_rules()))
