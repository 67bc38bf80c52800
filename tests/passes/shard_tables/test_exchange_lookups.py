"""Lookups of sharded tables, and their gradients, give the numbers of whole tables."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.config.options import session_options
from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup import EXCHANGED_LOOKUP
from graph_opt.sharding.in_process import InProcessGroup
from tests.optimizer_models import STOCK
from tests.passes.fused_models import config
from tests.passes.shard_tables.replicated_scripts import (
    Script,
    conditionally,
    divided_state,
    gathered,
    require_same,
    script,
    train,
    train_sharded,
)
from tests.quick_cases import slow_but

ROWS = 23
TABLES = ("items", "users", "history")
STEPS = 4
Reduced = Callable[[List[Any]], Sequence[Any]]


def each(gradients: List[Any], ranks: int) -> Sequence[Any]:
    return [gathered(gradient, ranks) for gradient in gradients]


def in_conditionals(gradients: List[Any], ranks: int) -> Sequence[Any]:
    return [conditionally(gradient, ranks) for gradient in gradients]


def clipped(gradients: List[Any], ranks: int) -> Sequence[Any]:
    return each(tf.clip_by_global_norm(gradients, 0.5)[0], ranks)


def lookups(tables: Sequence[Any]) -> List[tf.Tensor]:
    """Plain, pooled, weighted and safe lookups, with bags without ids, several of one table."""
    ids = tf.placeholder(tf.int64, [None], name="ids")
    bags = tf.SparseTensor(
        tf.placeholder(tf.int64, [None, 2], name="places"),
        tf.placeholder(tf.int64, [None], name="of_bags"),
        tf.placeholder(tf.int64, [2], name="shape"),
    )
    weights = tf.SparseTensor(
        bags.indices, tf.cast(bags.values % 5, tf.float32) * 0.3, bags.dense_shape
    )
    items, users, history = tables
    return [
        tf.nn.embedding_lookup(items, tf.reshape(ids, [-1, 2])),
        tf.nn.safe_embedding_lookup_sparse(users, bags, combiner="mean"),
        tf.nn.safe_embedding_lookup_sparse(users, bags, weights, combiner="sqrtn"),
        tf.nn.embedding_lookup_sparse(history, bags, None, combiner="sum"),
        tf.nn.embedding_lookup(history, tf.cast(ids * 7 % ROWS, tf.int32)),
    ]


def feed(step: int, rank: int) -> Dict[str, Any]:
    random = np.random.default_rng([step, rank])
    return {
        "ids:0": random.integers(0, ROWS // 2, 12 + 2 * rank),
        "places:0": np.array([[0, 0], [1, 0], [1, 2], [3, 0], [4, 1], [4, 2]]),
        "of_bags:0": random.integers(1, ROWS, 6),
        "shape:0": (6, 3),
    }


def model(
    optimizer: str, reduced: Any, use_resource: bool, ranks: int, dtype: Any = tf.float32
) -> Script:
    def build() -> Sequence[tf.Tensor]:
        tables = [
            tf.get_variable(
                name,
                [ROWS, width],
                dtype,
                initializer=tf.random_uniform_initializer(-1, 1, seed=width),
                use_resource=use_resource,
            )
            for name, width in zip(TABLES, (4, 8, 3))
        ]
        rows = lookups(tables)
        loss = tf.add_n([tf.reduce_sum(tf.square(one - 0.3)) for one in rows])
        made = STOCK[optimizer]()
        gradients = [gradient for gradient, _ in made.compute_gradients(loss, tables)]
        step = made.apply_gradients(zip(reduced(gradients, ranks), tables))
        with tf.control_dependencies([step]):
            return [tf.identity(loss)]

    return script(build, feed)


CASES = [
    (each, True, "adam"),
    (in_conditionals, False, "adagrad"),
    (clipped, True, "momentum"),
    (each, False, "momentum"),
    (each, True, "ftrl"),
]


@pytest.mark.parametrize(("reduced", "use_resource", "optimizer"), slow_but(CASES, *CASES[1:3]))
def test_sharded_tables_train_as_whole_ones(
    reduced: Any, use_resource: bool, optimizer: str
) -> None:
    of = model(optimizer, reduced, use_resource, ranks=2)
    sharded = train_sharded(of, TABLES, 2, STEPS)
    require_same(sharded, train(of, 2, STEPS))
    state = sharded[0].state
    assert state is not None
    found = find_lookups(state.view).lookups
    assert {one.api for one in found} == {EXCHANGED_LOOKUP}


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "momentum", "ftrl"])
def test_safe_lookups_travel_as_bags_and_ask_for_the_row_that_fills_them(optimizer: str) -> None:
    of = model(optimizer, each, True, ranks=2)
    transport = InProcessGroup(2).transport(0)
    state, _ = divided_state(of, TABLES, transport, session_options(None))
    found: Dict[bytes, int] = {}
    for name in state.view.of_op("GroupEmbeddingPrepare"):
        attributes = state.view.nodes[name].attr
        filled = attributes["filled_ids"].list.i or [-1] * len(attributes["combiners"].list.s)
        found.update(zip(attributes["combiners"].list.s, filled))
    row = 0 if optimizer in ("momentum", "ftrl") else -1  # which a gradient of zero moves
    assert found == {b"mean": row, b"sqrtn": row, b"sum": -1}


def test_their_updates_are_fused_and_deferred() -> None:
    of = model("adam", each, True, ranks=2)
    sharded = train_sharded(of, TABLES, 2, STEPS, config())
    require_same(sharded, train(of, 2, STEPS))
    state = sharded[0].state
    assert state is not None
    assert {one.update for one in state.report.fused_lookups} == {"deferred"}
    assert state.view.of_op("ResourceExchangeApply")
    assert not state.view.of_op("ResourceScatterAdd")


@pytest.mark.parametrize("reduced", [each, in_conditionals])
def test_lookups_of_placeholders_that_one_step_feeds_are_one_exchange(reduced: Any) -> None:
    def build() -> Sequence[tf.Tensor]:
        tables = [tf.get_variable(name, [ROWS, 4]) for name in TABLES]
        fed = [tf.placeholder(tf.int64, [None], name="ids_of_" + name) for name in TABLES]
        rows = [tf.nn.embedding_lookup(*pair) for pair in zip(tables, fed)]
        loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in rows])
        made = tf.train.AdagradOptimizer(0.1)
        gradients = [gradient for gradient, _ in made.compute_gradients(loss, tables)]
        step = made.apply_gradients(zip(reduced(gradients, 2), tables))
        with tf.control_dependencies([step]):
            return [tf.identity(loss)]

    transport = InProcessGroup(2).transport(0)
    of = script(build, feed)
    state, _ = divided_state(of, TABLES, transport, session_options(None))
    assert len(state.view.of_op("ExchangeGather")) == 1
    assert len(state.view.of_op("ExchangeAllToAll")) == 3
