"""What a table is: variables of all kinds, read in all ways, with their static attributes."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import Table, find_lookups
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.match.table import find_concatenated_reads, find_read, require_table
from tests.rules.lookup_values import shaped_view
from tests.rules.search import codes, search

FLOAT32 = 1


def view() -> GraphView:
    return GraphView(tf.get_default_graph().as_graph_def())


def ref(tensor: tf.Tensor) -> TensorRef:
    return TensorRef(tensor.op.name, tensor.value_index)


def ids() -> tf.Tensor:
    return tf.placeholder(tf.int64, [None], name="ids")


def found_table() -> Table:
    lookups = search().lookups
    assert len(lookups) == 1 and isinstance(lookups[0], Lookup)
    return lookups[0].tables[0]


@pytest.mark.parametrize("resource, op", [(False, "VariableV2"), (True, "VarHandleOp")])
def test_a_table_is_described_by_its_variable(resource: bool, op: str) -> None:
    with tf.device("/job:ps/task:1"):
        table = tf.get_variable("table", [10, 4], use_resource=resource)
    tf.nn.embedding_lookup(table, ids())
    assert found_table() == Table(
        "table", op, FLOAT32, (10, 4), "/job:ps/task:1", resource, partitions=1
    )


def test_shards_know_how_many_they_are() -> None:
    table = tf.get_variable("table", [10, 4], partitioner=tf.fixed_size_partitioner(3))
    tf.nn.embedding_lookup(table, ids())
    tables = search().lookups[0].tables
    assert [(shard.shape, shard.partitions) for shard in tables] == [
        ((4, 4), 3),
        ((3, 4), 3),
        ((3, 4), 3),
    ]


def test_the_old_variable_op_is_a_table() -> None:
    table = tf.raw_ops.Variable(shape=[10, 4], dtype=tf.float32)
    tf.gather(tf.identity(table), ids())
    assert found_table().op == "Variable"


@pytest.mark.parametrize("resource", [False, True])
def test_unknown_shapes_are_described(resource: bool) -> None:
    initial = tf.placeholder(tf.float32, None)
    table = tf.Variable(initial, validate_shape=False, use_resource=resource, trainable=False)
    tf.gather(table, ids())
    assert found_table().shape is None


def test_a_frozen_table_and_one_read_twice_over_are_tables() -> None:
    table = tf.get_variable("table", [10, 4])
    tf.gather(tf.stop_gradient(tf.identity(table)), ids())
    assert found_table().name == "table"


@pytest.mark.parametrize("resource", [False, True])
def test_other_tensors_are_not_tables(resource: bool) -> None:
    table = tf.get_variable("table", [10, 4], use_resource=resource)
    tf.gather(tf.placeholder(tf.float32, [None, 4]) * table[0], ids())
    tf.gather(tf.matmul(table, tf.zeros([4, 4])), ids())
    tf.gather(tf.constant([1.0, 2.0]), ids())
    tf.gather(tf.placeholder(tf.float32, [None, 4]), ids())
    found = find_lookups(shaped_view())
    assert found.lookups == () and found.refusals == ()


@pytest.mark.parametrize("resource", [False, True])
def test_a_partitioned_variable_read_whole_is_refused(resource: bool) -> None:
    table = tf.get_variable(
        "table", [10, 4], use_resource=resource, partitioner=tf.fixed_size_partitioner(2)
    )
    rows = tf.gather(table, ids(), name="rows")
    joined = find_concatenated_reads(view(), ref(rows.op.inputs[0]))
    assert joined == ["table/part_0", "table/part_1"]
    assert codes(search()) == [("partitions_concatenated", "rows")]


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    "compute",
    [
        lambda table: tf.concat([tf.zeros([1, 4]), table[1:]], 0),
        lambda table: tf.pad(tf.identity(table), [[1, 0], [0, 0]]),
        lambda table: tf.nn.l2_normalize(table, 1),
        lambda table: tf.cast(table * 2.0, tf.float16),
    ],
    ids=["padded", "pad", "normalized", "scaled"],
)
def test_rows_of_what_is_made_of_a_whole_table_are_refused(resource: bool, compute: Any) -> None:
    table = tf.get_variable("table", [10, 4], use_resource=resource)
    tf.gather(compute(table), ids(), name="rows")
    found = find_lookups(shaped_view())
    assert codes(found) == [("table_computed", "rows")]
    assert "computed from all of table" in found.refusals[0].saw


@pytest.mark.parametrize("missing", ["dtype", "shape"])
def test_a_variable_without_its_static_attributes_is_refused(missing: str) -> None:
    tf.gather(tf.get_variable("table", [10, 4]), ids(), name="rows")
    graph_def = tf.get_default_graph().as_graph_def()
    for node in graph_def.node:
        if node.op == "VariableV2":
            del node.attr[missing]
    broken = GraphView(graph_def)
    with pytest.raises(Refusal, match="table: table_attributes_missing: .*saw no " + missing):
        require_table(broken, "rows", broken.inputs("rows")[0])


@pytest.mark.parametrize("resource", [False, True])
def test_a_lookup_in_a_conditional_is_refused(resource: bool) -> None:
    table = tf.get_variable("table", [10, 4], use_resource=resource)
    features = ids()
    tf.cond(
        tf.size(features) > 3,
        lambda: tf.nn.embedding_lookup(table, features),
        lambda: tf.zeros([1, 4]),
        name="choice",
    )
    found = search()
    assert found.lookups == ()
    assert codes(found) == [("lookup_in_control_flow", "choice/embedding_lookup")]
    assert "table through Switch" in found.refusals[0].saw


@pytest.mark.parametrize("resource", [False, True])
def test_a_lookup_in_a_loop_is_refused(resource: bool) -> None:
    table = tf.get_variable("table", [10, 4], use_resource=resource)
    features = ids()
    tf.while_loop(
        lambda step, total: step < 3,
        lambda step, total: (step + 1, total + tf.nn.embedding_lookup(table, features)[0]),
        [tf.constant(0), tf.zeros([4])],
        name="loop",
    )
    found = search()
    assert found.lookups == ()
    assert codes(found) == [("lookup_in_control_flow", "loop/embedding_lookup")]
    assert "table through Enter" in found.refusals[0].saw


def test_a_lookup_in_a_chosen_table_is_refused() -> None:
    first, second = tf.get_variable("first", [10, 4]), tf.get_variable("second", [10, 4])
    features = ids()
    table = tf.cond(tf.size(features) > 3, lambda: tf.identity(first), lambda: tf.identity(second))
    tf.gather(table, features, name="rows")
    assert codes(search()) == [("lookup_in_control_flow", "rows")]


def test_ids_chosen_by_a_conditional_are_accepted() -> None:
    table = tf.get_variable("table", [10, 4])
    features = ids()
    chosen = tf.cond(tf.size(features) > 3, lambda: features, lambda: features + 1)
    tf.nn.embedding_lookup(table, chosen)
    assert found_table().name == "table" and search().refusals == ()


def test_endless_chains_of_reads_are_given_up() -> None:
    graph_def = tf.GraphDef()
    for name, source in (("a", "b"), ("b", "a")):
        graph_def.node.add(name=name, op="Identity", input=[source])
    assert find_read(GraphView(graph_def), TensorRef("a", 0)) is None
