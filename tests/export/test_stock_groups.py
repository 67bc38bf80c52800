"""TensorFlow's nodes that replace group lookups and their gradients give the same values."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.export.users_graph import is_ours
from tests.embedding.lookup_groups import random_bags, table
from tests.quick_cases import slow_but

ROWS, BAGS = 13, 6


def requests_of(tables: List[Any]) -> List[LookupRequest]:
    """Every kind of ids, combiner and weights, and a table that is looked up twice."""
    random = np.random.RandomState(3)
    bags = [random_bags(random, BAGS, ROWS) for _ in range(6)]
    flat = tf.constant([3, 0, -1, 5, 3, 1], tf.int32)
    return [
        LookupRequest(tables[0], bags[0].sparse(), "mean"),
        LookupRequest(tables[1], bags[1].shuffled(tf.int32), "sum", bags[1].shuffled_weights()),
        LookupRequest(tables[0], bags[2].ragged(), "sqrtn", bags[2].ragged_weights()),
        LookupRequest(tables[2], bags[3].dense(tf.int32), "mean", default_id=4),
        LookupRequest(tables[2], bags[4].sparse(), "sqrtn", bags[4].sparse_weights(), 2),
        LookupRequest(tables[1], flat, "sum"),
    ]


@pytest.mark.parametrize("use_resource", slow_but([False, True], True))
@pytest.mark.parametrize("strategy", slow_but(["mod", "div"], "mod"))
def test_lookups_and_gradients_have_the_same_values(use_resource: bool, strategy: str) -> None:
    tables = [
        table("one", ROWS, 3, use_resource),
        table("parts", ROWS + 4, 2, use_resource, partitions=3),
        table("two", ROWS, 4, use_resource, partitions=2),
    ]
    requests = requests_of(tables)
    pooled = lookup_group(requests, strategy)
    loss = tf.add_n(
        [tf.reduce_sum(tf.square(tensor) * (1.0 + i)) for i, tensor in enumerate(pooled)]
    )
    parts = [part for one in tables for part in (one if use_partitions(one) else [one])]
    slices = tf.gradients(loss, parts)
    weights = [request.weights for request in requests if request.weights is not None]
    of_weights = tf.gradients(loss, [tensors_of(values) for values in weights])
    fetches = [*pooled, *[tensor for one in slices for tensor in (one.indices, one.values)]]
    fetches += of_weights
    names = [tensor.name for tensor in fetches]
    graph = loss.graph
    assert any(is_ours(operation.type) for operation in graph.get_operations())
    expected = values_of(graph, names)
    meta = tf.train.export_meta_graph()
    assert not any(is_ours(node.op) for node in meta.graph_def.node)
    with tf.Graph().as_default() as stock:
        tf.train.import_meta_graph(meta)
        for name, wanted, got in zip(names, expected, values_of(stock, names)):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def use_partitions(variable: Any) -> bool:
    return not hasattr(variable, "op")


def tensors_of(values: Any) -> Any:
    return values.flat_values if isinstance(values, tf.RaggedTensor) else values.values


def values_of(graph: Any, names: List[str]) -> List[np.ndarray]:
    with graph.as_default(), tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return list(session.run(names))


def test_a_lookup_waits_for_what_it_waited_for() -> None:
    variable = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
    with tf.control_dependencies([variable.assign_add(tf.ones([4, 2])).op]):
        (pooled,) = graph_opt.group_embedding_lookup_sparse(
            [variable], [tf.constant([1, 2])], "sum"
        )
    meta = tf.train.export_meta_graph()
    with tf.Graph().as_default() as stock:
        tf.train.import_meta_graph(meta)
        assert values_of(stock, [pooled.name])[0].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_lookup_in_a_branch_and_in_a_loop() -> None:
    variable = tf.get_variable("table", [4, 2], initializer=tf.ones_initializer())

    def looked_up(ids: Any) -> Any:
        return graph_opt.group_embedding_lookup_sparse([variable], [ids], "sum")[0]

    ids = tf.constant([1, 2])
    branch = tf.cond(ids[0] < 2, lambda: looked_up(ids), lambda: tf.zeros([2, 2]), name="branch")
    other = tf.cond(ids[0] > 2, lambda: looked_up(ids), lambda: tf.zeros([2, 2]), name="other")
    _, loop = tf.while_loop(
        lambda i, total: i < 3,
        lambda i, total: (i + 1, total + looked_up(ids + 0 * i)),
        [0, tf.zeros([2, 2])],
    )
    names = [branch.name, other.name, loop.name]
    expected = values_of(ids.graph, names)
    meta = tf.train.export_meta_graph()
    assert not any(is_ours(node.op) for node in meta.graph_def.node)
    with tf.Graph().as_default() as stock:
        tf.train.import_meta_graph(meta)
        for wanted, got in zip(expected, values_of(stock, names)):
            np.testing.assert_array_equal(got, wanted)
