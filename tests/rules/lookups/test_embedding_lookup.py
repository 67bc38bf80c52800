"""Rows by ids: of partitioned tables, and clipped to a norm that must be constant."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from graph_opt.compat import tf
from tests.rules.search import outputs, search

LOOKUP = "tf.nn.embedding_lookup"


def ids(dtype: Any = tf.int64) -> tf.Tensor:
    return tf.placeholder(dtype, [None], name="ids")


def shards(count: int, resource: bool = False) -> List[Any]:
    return [
        tf.get_variable("shard_{}".format(number), [10, 4], use_resource=resource)
        for number in range(count)
    ]


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize("count", [2, 5])
def test_a_list_of_tables_is_one_table_in_shards(count: int, dtype: Any, strategy: str) -> None:
    given = ids(dtype)
    rows = tf.nn.embedding_lookup(shards(count), given, partition_strategy=strategy)
    lookups = search().lookups
    assert outputs(search()) == [(LOOKUP, rows.name)]
    assert [table.name for table in lookups[0].tables] == [
        "shard_{}".format(number) for number in range(count)
    ]
    assert lookups[0].partition_strategy == strategy
    assert len(lookups[0].gathers) == count
    assert [str(tensor) for tensor in lookups[0].ids] == [given.name]


def test_shards_of_unknown_sizes_are_recognised() -> None:
    initial = tf.placeholder(tf.float32, None)
    tables = [tf.Variable(initial, validate_shape=False, use_resource=False) for _ in range(2)]
    rows = tf.nn.embedding_lookup(tables, ids(), partition_strategy="div")
    assert outputs(search()) == [(LOOKUP, rows.name)]


def own_sharding(hashed: tf.Tensor) -> tf.Tensor:
    """Rows of two shards that the user's own hash selects."""
    given = ids()
    tables = shards(2)
    parts = tf.dynamic_partition(given, hashed, 2)
    places = tf.dynamic_partition(tf.range(tf.size(given)), hashed, 2)
    rows = [tf.gather(table, part) for table, part in zip(tables, parts)]
    tf.dynamic_stitch(places, rows)
    return rows


def test_the_users_own_sharding_leaves_one_lookup_for_each_shard() -> None:
    rows = own_sharding(tf.placeholder(tf.int32, [None]))
    assert outputs(search()) == [("tf.gather", tensor.name) for tensor in rows]


def test_shards_read_elsewhere_leave_one_lookup_for_each_shard() -> None:
    tf.nn.embedding_lookup(shards(2), ids())
    graph = tf.get_default_graph()
    gathers = [op for op in graph.get_operations() if op.type == "GatherV2"]
    tf.nn.relu(gathers[1].outputs[0])
    assert outputs(search()) == [("tf.gather", op.outputs[0].name) for op in gathers]


def test_a_stitch_with_rows_of_no_table_leaves_the_gather() -> None:
    given = ids()
    chosen = tf.cast(given % 2, tf.int32)
    parts = tf.dynamic_partition(given // 2, chosen, 2)
    places = tf.dynamic_partition(tf.range(tf.size(given)), chosen, 2)
    rows = tf.gather(shards(1)[0], parts[0])
    tf.reshape(tf.dynamic_stitch(places, [rows, tf.zeros([tf.size(parts[1]), 4])]), [-1, 4])
    assert outputs(search()) == [("tf.gather", rows.name)]


def test_only_whole_lookups_in_control_flow_are_refused() -> None:
    given = ids()
    tables = shards(2)
    tf.cond(
        tf.size(given) > 3,
        lambda: tf.nn.embedding_lookup(tables, given),
        lambda: tf.zeros([1, 4]),
    )
    found = search()
    assert found.lookups == ()
    assert [refusal.code for refusal in found.refusals] == ["lookup_in_control_flow"] * 2


def clipped(norm: Any, partitions: int = 1) -> Tuple[tf.Tensor, tf.Tensor]:
    """(rows as they are read, the same rows clipped)."""
    partitioner = tf.fixed_size_partitioner(partitions) if partitions > 1 else None
    table = tf.get_variable("table", [10, 4], partitioner=partitioner)
    rows = tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None]))
    return rows, tf.clip_by_norm(rows, norm, axes=[1])


@pytest.mark.parametrize("partitions", [1, 2])
def test_rows_clipped_by_hand_are_clipped_rows(partitions: int) -> None:
    _, short = clipped(1.0, partitions)
    lookup = search().lookups[0]
    assert str(lookup.output) == short.name
    assert lookup.max_norm
    assert short.op.inputs[0].op.name in lookup.nodes


def test_a_norm_that_is_trained_stays_outside() -> None:
    rows, _ = clipped(tf.get_variable("norm", []))
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]


def test_rows_that_are_also_read_unclipped_stay_unclipped() -> None:
    rows, short = clipped(1.0)
    tf.concat([rows, short], 1)
    lookup = search().lookups[0]
    assert (str(lookup.output), lookup.max_norm) == (rows.name, False)


def test_a_product_with_something_else_is_not_clipping() -> None:
    table = tf.get_variable("table", [10, 4])
    rows = tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None]))
    scale = tf.maximum(tf.placeholder(tf.float32, []), 1.0)
    tf.divide(rows * 2.0, scale)
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]
