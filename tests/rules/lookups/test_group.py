"""graph_opt's own ops are found as lookups; their gradients and updates are not."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.group_embedding import (
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
    group_embedding_lookup,
)
from graph_opt.rules import Lookup, LookupSearch, find_lookups
from graph_opt.rules.lookup import EMBEDDING_LOOKUP, GROUP_EMBEDDING_LOOKUP_SPARSE
from tests.rules.search import codes, search

ROWS, WIDTH = 40, 4
LOOKUP_OF = {False: "GroupEmbeddingLookup", True: "ResourceGroupEmbeddingLookup"}


def table(name: str, resource: bool = False, parts: int = 1, **options: Any) -> Any:
    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    return tf.get_variable(
        name, [ROWS, WIDTH], use_resource=resource, partitioner=partitioner, **options
    )


def sparse_ids(name: str) -> Any:
    return tf.sparse_placeholder(tf.int64, [None, 3], name=name)


def train(pooled: Sequence[Any]) -> Any:
    loss = tf.reduce_mean(tf.nn.relu(tf.concat(list(pooled), 1)))
    return tf.train.AdagradOptimizer(0.1).minimize(loss)


def names_of_tables(lookup: Lookup) -> List[str]:
    return [table.name for table in lookup.tables]


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("resource", [False, True])
def test_each_output_of_the_op_is_a_lookup(resource: bool, trained: bool) -> None:
    tables = [table("a", resource), table("b", resource, parts=3), table("c", resource)]
    ids = [sparse_ids(name) for name in "xyz"]
    pooled = group_embedding_lookup_sparse(
        [*tables, tables[0]], [*ids, ids[0]], ["sum", "mean", "sqrtn", "mean"], name="group"
    )
    if trained:
        train(pooled)
    lookups = search().lookups
    assert [str(lookup.output) for lookup in lookups] == [tensor.name for tensor in pooled]
    assert {lookup.api for lookup in lookups} == {GROUP_EMBEDDING_LOOKUP_SPARSE}
    parts = ["b/part_0", "b/part_1", "b/part_2"]
    assert [names_of_tables(lookup) for lookup in lookups] == [["a"], parts, ["c"], ["a"]]
    assert [lookup.combiner for lookup in lookups] == ["sum", "mean", "sqrtn", "mean"]
    assert [lookup.partition_strategy for lookup in lookups] == [None, "mod", None, None]
    assert [[table.partitions for table in lookup.tables] for lookup in lookups] == [
        [1], [3, 3, 3], [1], [1]
    ]  # fmt: skip
    node = "group/" + LOOKUP_OF[resource]
    assert [lookup.gathers for lookup in lookups] == [(node,)] * 4
    assert [lookup.nodes for lookup in lookups] == [(node,)] * 4
    assert len({lookup.name for lookup in lookups}) == 4
    assert [lookup.ids for lookup in lookups][:3] == [
        (TensorRef(name + "/values", 0),) for name in "xyz"
    ]


def test_lookups_with_columns_share_one_output() -> None:
    tables, ids = [table("a"), table("b")], [sparse_ids("x"), sparse_ids("y")]
    pooled = group_embedding_lookup(
        [one.value() for one in tables],
        GroupIds(
            [one.values for one in ids],
            [one.indices for one in ids],
            [one.dense_shape for one in ids],
            [],
        ),
        attributes(["mean", "sum"], columns=[WIDTH, 0], columns_width=2 * WIDTH),
        [tf.float32],
    )
    train(pooled)
    lookups = search().lookups
    assert [str(lookup.output) for lookup in lookups] == [pooled[0].name]
    assert names_of_tables(lookups[0]) == ["a", "b"]
    assert lookups[0].ids == (TensorRef("x/values", 0), TensorRef("y/values", 0))
    assert lookups[0].combiner is None


def attributes(combiners: Sequence[str], **options: Any) -> GroupAttributes:
    count = len(combiners)
    return GroupAttributes(
        lookup_tables=list(range(count)),
        table_shards=[1] * count,
        table_names=list("abcdef"[:count]),
        combiners=combiners,
        layouts=["sparse"] * count,
        weighted=[False] * count,
        default_ids=[-1] * count,
        **options,
    )


@pytest.mark.parametrize("resource", [False, True])
def test_the_fused_update_is_neither_model_nor_lookup(resource: bool) -> None:
    one, slot, ids = table("a", resource), table("slot", resource, trainable=False), sparse_ids("x")
    given = GroupIds([ids.values], [ids.indices], [ids.dense_shape], [])
    reads = [one.handle if resource else one.value()]
    pooled = group_embedding_lookup(reads, given, attributes(["mean"]), [tf.float32])
    gradient = tf.gradients(tf.reduce_sum(tf.nn.relu(pooled[0])), pooled[0])
    group_embedding_apply(
        "Adagrad",
        [one.handle if resource else one._ref()],
        [slot.handle if resource else slot._ref()],
        [tf.constant(0.1), tf.constant(0.0)],
        given,
        attributes(["mean"]),
        gradient,
    )
    assert [str(lookup.output) for lookup in search().lookups] == [pooled[0].name]


def test_ids_looked_up_in_a_table_depend_on_no_whole_variable() -> None:
    first = group_embedding_lookup_sparse([table("a")], [sparse_ids("x")], "mean")[0]
    hashed = tf.cast(tf.reduce_sum(first, 1), tf.int64)
    group_embedding_lookup_sparse([table("b")], [hashed], "mean")
    found = search()
    assert [names_of_tables(lookup) for lookup in found.lookups] == [["a"], ["b"]]
    assert codes(found) == []


@pytest.mark.parametrize("whole", ["ids", "weights"])
def test_refuses_ids_and_weights_computed_from_a_whole_variable(whole: str) -> None:
    factor = tf.reduce_sum(table("dense"))
    ids = tf.placeholder(tf.int64, [None, 3])
    weights = tf.ones([2, 3])
    if whole == "ids":
        ids = ids + tf.cast(factor, tf.int64)
    else:
        weights = weights * factor
    group_embedding_lookup_sparse([table("a")], [ids], "mean", sp_weights=[weights], name="group")
    found = search()
    assert found.lookups == ()
    assert codes(found) == [("dense_variable_upstream", "group/GroupEmbeddingLookup")]


def test_refuses_tables_read_through_a_cond() -> None:
    one, ids = table("a", resource=True), sparse_ids("x")
    tf.cond(
        tf.placeholder(tf.bool, []),
        lambda: group_embedding_lookup_sparse([one], [ids], "mean")[0],
        lambda: tf.zeros([1, WIDTH]),
    )
    found = search()
    assert found.lookups == ()
    assert [code for code, _ in codes(found)] == ["lookup_in_control_flow"]


def test_tensors_that_are_not_variables_are_not_tables() -> None:
    rows = tf.placeholder(tf.float32, [ROWS, WIDTH])
    group_embedding_lookup_sparse([rows], [sparse_ids("x")], "mean")
    found = search()
    assert found.lookups == () and found.refusals == ()


def test_other_lookups_of_the_same_table_are_found_too() -> None:
    one, ids = table("a"), sparse_ids("x")
    pooled = group_embedding_lookup_sparse([one], [ids], "mean")[0]
    rows = tf.nn.embedding_lookup(one, tf.placeholder(tf.int64, [None]))
    train([pooled, rows])
    apis = [lookup.api for lookup in search().lookups]
    assert sorted(apis) == sorted([GROUP_EMBEDDING_LOOKUP_SPARSE, EMBEDDING_LOOKUP])


def test_dtypes_of_the_ops_are_known_once_the_library_is_loaded() -> None:
    pooled = group_embedding_lookup_sparse([table("a")], [sparse_ids("x")], "mean")[0]
    view = GraphView(running_graph_def())
    assert view.dtype(TensorRef(pooled.op.name, 0)) == tf.float32.as_datatype_enum


# Packed lookups, as the fusing pass writes them for tables on servers.


def packed_graph(
    servers: Sequence[int],
    shards: Sequence[int],
    resource: bool = True,
    identity: bool = False,
    columns: Sequence[int] = (),
) -> Any:
    """A GraphDef in which lookup i reads table i, whose shards are on these servers."""
    graph_def = tf.GraphDef()
    count = len(shards)

    def node(op: str, name: str, inputs: Sequence[str] = (), **attributes: Any) -> str:
        made = graph_def.node.add(op=op, name=name, input=list(inputs))
        for key, value in attributes.items():
            made.attr[key].CopyFrom(value)
        return name

    shape = tf.AttrValue(shape=tf.TensorShape([ROWS, WIDTH]).as_proto())
    dtype = tf.AttrValue(type=tf.float32.as_datatype_enum)
    tables = [
        node("VarHandleOp" if resource else "VariableV2", "t{}".format(i), shape=shape, dtype=dtype)
        for i in range(len(servers))
    ]
    reads = tables if resource else [node("Identity", name + "/read", [name]) for name in tables]
    ids = [node("Placeholder", "ids{}".format(i)) for i in range(count)]
    empty = node("Placeholder", "empty")
    group = dict(
        lookup_tables=integers(range(count)),
        table_shards=integers(shards),
        columns=integers(columns),
        combiners=texts(["mean"] * count),
        weighted=tf.AttrValue(list=tf.AttrValue.ListValue(b=[False] * count)),
        partition_strategies=texts(["div"] * len(shards)),
    )
    prepare = node(
        "GroupEmbeddingPrepare",
        "prepare",
        [*ids, *[empty] * (2 * count)],
        shard_servers=integers(servers),
        **group,
    )
    number_of_servers = max(servers) + 1
    rows = []
    for server in range(number_of_servers):
        own = [read for read, place in zip(reads, servers) if place == server]
        gather = node(
            "ResourceGroupEmbeddingGather" if resource else "GroupEmbeddingGather",
            "gather{}".format(server),
            [*own, "{}:{}".format(prepare, server)],
        )
        rows.append(node("Identity", "id{}".format(server), [gather]) if identity else gather)
    left = ["{}:{}".format(prepare, number_of_servers + i) for i in range(2)]
    node("GroupEmbeddingCombine", "combine", [*rows, *left], **group)
    for output in range(1 if columns else count):
        node("Relu", "relu{}".format(output), ["combine:{}".format(output)])
    return graph_def


def integers(values: Sequence[int]) -> Any:
    return tf.AttrValue(list=tf.AttrValue.ListValue(i=list(values)))


def texts(values: Sequence[str]) -> Any:
    return tf.AttrValue(list=tf.AttrValue.ListValue(s=[value.encode() for value in values]))


def found_in(graph_def: Any) -> LookupSearch:
    return find_lookups(GraphView(graph_def))


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("resource", [False, True])
def test_packed_lookups_are_prepare_gathers_and_combine(resource: bool, identity: bool) -> None:
    found = found_in(packed_graph([0, 1, 1, 0], [1, 2, 1], resource, identity))
    assert found.refusals == ()
    assert [names_of_tables(one) for one in found.lookups] == [["t0"], ["t1", "t2"], ["t3"]]
    assert [str(one.output) for one in found.lookups] == ["combine:0", "combine:1", "combine:2"]
    assert [one.ids for one in found.lookups] == [
        (TensorRef("ids{}".format(i), 0),) for i in range(3)
    ]
    assert {one.gathers for one in found.lookups} == {("gather0", "gather1")}
    assert {one.nodes for one in found.lookups} == {("prepare", "gather0", "gather1", "combine")}
    assert [one.partition_strategy for one in found.lookups] == [None, "div", None]


def test_packed_lookups_with_columns_share_one_output() -> None:
    found = found_in(packed_graph([0, 1], [1, 1], columns=[0, WIDTH]))
    assert [names_of_tables(one) for one in found.lookups] == [["t0", "t1"]]


BROKEN: Dict[str, Any] = {
    "a shard on another server": {"shard_servers": integers([0, 0, 0])},
    "a shard less": {"shard_servers": integers([0, 1])},
    "a table less": {"table_shards": integers([1, 1])},
    "an unknown table": {"lookup_tables": integers([0, 1, 7])},
    "a combiner less": {"combiners": texts(["mean"])},
}


@pytest.mark.parametrize("what", BROKEN)
def test_packed_lookups_that_do_not_fit_together_are_not_lookups(what: str) -> None:
    graph_def = packed_graph([0, 1, 0], [1, 1, 1])
    for node in graph_def.node:
        for key, value in BROKEN[what].items():
            if key in node.attr:
                node.attr[key].CopyFrom(value)
    found = found_in(graph_def)
    assert found.lookups == () and found.refusals == ()


def test_rows_requested_by_another_group_are_not_a_lookup() -> None:
    graph_def = packed_graph([0], [1])
    other = graph_def.node.add(op="GroupEmbeddingPrepare", name="other")
    gather = next(node for node in graph_def.node if node.name == "gather0")
    gather.input[-1] = other.name
    assert found_in(graph_def).lookups == ()


UPDATES = [
    "GroupEmbeddingApply",
    "ResourceGroupEmbeddingApply",
    "GroupEmbeddingApplyPacked",
    "ResourceGroupEmbeddingApplyPacked",
]


@pytest.mark.parametrize("update", UPDATES)
def test_what_packed_updates_gather_is_not_a_lookup(update: str) -> None:
    graph_def = packed_graph([0], [1])
    slot = graph_def.node.add(op="VarHandleOp", name="slot")
    slot.CopyFrom(next(node for node in graph_def.node if node.name == "t0"))
    slot.name = "slot"
    graph_def.node.add(op="ResourceGather", name="rows", input=["slot", "ids0"])
    pack = ["ids0", "empty", "empty", "relu0"]
    graph_def.node.add(op="GroupEmbeddingPackGradients", name="pack", input=pack)
    graph_def.node.add(op=update, name="update", input=["t0", "slot", "pack", "rows"])
    assert [str(one.output) for one in found_in(graph_def).lookups] == ["combine:0"]
