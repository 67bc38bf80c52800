"""What reads a table whose update is deferred waits until its rows are current."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.config.options import session_options
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.undo import undo_of
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.catch_up import rewrite_for_new_readers
from graph_opt.passes.fusion.deferred import DeferredVariables
from graph_opt.passes.graph_reports import report_of_rewritten
from graph_opt.passes.optimize import Planned, optimize_graph_def, plan
from tests.control_flow import control_flow_v2
from tests.passes import fused_models as models
from tests.quick_cases import one_of_each

DEFERRED = models.config(adam="deferred")


def trained(
    resource: bool = False, shards: int = 1, names: Sequence[str] = ("one",)
) -> Tuple[Dict[str, Any], List[Any], Any]:
    """A model that Adam trains: its inputs, its tables and the train op."""
    inputs = models.batches()
    sparse = tf.sparse.from_dense(inputs["ids"])
    tables = [models.table(name, resource=resource, shards=shards) for name in names]
    pooled = [tf.nn.safe_embedding_lookup_sparse(table, sparse) for table in tables]
    step = tf.train.AdamOptimizer().minimize(models.loss_of(pooled, inputs))
    return inputs, tables, step


def planned(config: Any = DEFERRED) -> Tuple[Planned, GraphView]:
    """The rewrite of the default graph, and the graph after it."""
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    made = plan(graph_def, session_options(config))
    return made, GraphView(apply_to_graph_def(graph_def, *made.rewrites))


def caught_up(view: GraphView, name: str) -> List[Tuple[str, List[str]]]:
    """What catches up rows before a node runs: each op with the names of its inputs."""
    sources = [name, *(tensor.node for tensor in view.inputs(name))]
    waits = [wait for source in dict.fromkeys(sources) for wait in view.controls(source)]
    return [
        (view.op(wait), [tensor.node for tensor in view.inputs(wait)])
        for wait in waits
        if "CatchUp" in view.op(wait)
    ]


@pytest.mark.parametrize("shards, resource", one_of_each([1, 2], [False, True]))
def test_a_fused_lookup_waits_for_the_rows_of_its_ids(resource: bool, shards: int) -> None:
    trained(resource, shards)
    made, view = planned()
    kind = "Resource" if resource else ""
    tables = ["one"] if shards == 1 else ["one/part_0", "one/part_1"]
    (lookup,) = view.of_op(kind + "GroupEmbeddingLookup")
    (update,) = view.of_op(kind + "GroupEmbeddingApply")
    ((op, inputs),) = caught_up(view, lookup)
    assert op == kind + "GroupEmbeddingCatchUp"
    slots = [table + slot for slot in ("/Adam", "/Adam_1") for table in tables]
    assert inputs[: 3 * shards] == tables + slots
    assert inputs[3 * shards :] == [t.node for t in view.inputs(lookup)[shards:]]
    states = view.attribute(update, "row_states")
    assert states is not None and [text.decode() for text in states.list.s] == tables
    assert [one.update for one in made.report.fused_lookups] == ["deferred"]


@pytest.mark.parametrize("adam", ["lazy", "stock"])
def test_other_ways_to_update_catch_nothing_up(adam: str) -> None:
    trained()
    made, view = planned(models.config(adam=adam))
    assert made.name_map.part(DeferredVariables) is None
    assert not any("CatchUp" in op for op in view.ops())


def test_readers_of_a_reference_wait_for_all_rows_of_their_tables() -> None:
    inputs, tables, _ = trained(names=("one", "two"))
    tf.train.Saver(tables)
    tf.norm(tables[0], name="norm")
    tf.gather(tables[1], inputs["one"], name="rows")
    tf.shape(tables[0]._ref(), name="shape")
    made, view = planned()
    all_of = "GroupEmbeddingCatchUpAll"
    of_one = (all_of, ["one", "one/Adam", "one/Adam_1"])
    of_two = (all_of, ["two", "two/Adam", "two/Adam_1"])
    assert caught_up(view, "norm/mul") == [of_one]
    assert sorted(caught_up(view, "save/SaveV2")) == [of_one, of_two]
    assert caught_up(view, "one/Assign") == caught_up(view, "one/Adam_1/Assign") == [of_one]
    assert caught_up(view, "save/Assign_1") == [of_two]
    ((op, read),) = caught_up(view, "rows")
    assert op == "GroupEmbeddingCatchUp" and read[:3] == of_two[1]
    assert not caught_up(view, "shape") and not view.controls("one/read")
    readers = {reader.node: reader for reader in made.report.dense_readers}
    assert readers["norm/mul"].tables == ("one",) and not readers["norm/mul"].in_each_step
    assert "one/Assign" not in readers and "rows" not in readers


def test_readers_of_a_handle_wait_for_all_rows() -> None:
    _, tables, _ = trained(resource=True)
    tf.norm(tables[0], name="norm")
    tf.train.Saver(tables)
    _, view = planned()
    saved = "one/Read/ReadVariableOp"
    assert view.readers(saved) == ["save/SaveV2"]
    for name in ["norm/ReadVariableOp", "one/Assign", saved]:
        ((op, inputs),) = caught_up(view, name)
        assert op == "ResourceGroupEmbeddingCatchUpAll"
        assert inputs == ["one", "one/Adam", "one/Adam_1"]


def test_fetches_of_a_reference_are_translated() -> None:
    _, (table,), _ = trained()
    with tf.control_dependencies([tf.no_op("before")]):
        later = tf.identity(table, name="later")
    made, view = planned()
    deferred = made.name_map.part(DeferredVariables)
    assert deferred is not None and view.controls(deferred.catch_up_all)
    names = deferred.current_values
    assert set(names) == {
        *("one:0", "one/read:0", "one/Adam:0", "one/Adam/read:0", "one/Adam_1:0"),
        *("one/Adam_1/read:0", later.name),
    }
    for name, current in names.items():
        read = TensorRef.parse(current).node
        (source,) = view.controls(read)
        variable = TensorRef.parse(name).node.replace("/read", "").replace("later", "one")
        assert view.inputs(read)[0].node == variable
        assert ("before" in view.controls(source)) == (name == later.name)


def test_a_branch_that_is_not_taken_catches_nothing_up() -> None:
    inputs, (table,), _ = trained()
    condition = tf.reduce_sum(inputs["one"]) > 3
    with control_flow_v2(False):
        tf.cond(condition, lambda: tf.reduce_sum(table, name="total"), lambda: 0.0)
    _, view = planned()
    (total,) = [name for name in view.of_op("Sum") if name.endswith("total")]
    read = view.inputs(total)[0].node
    (source,) = view.controls(read)
    assert view.op(source) == "GroupEmbeddingCatchUpAll"
    (alive,) = view.controls(source)
    assert view.op(view.inputs(alive)[0].node) == "Switch"


def test_a_function_that_only_reads_a_table_waits_like_any_reader() -> None:
    inputs, (table,), _ = trained(resource=True)
    condition = tf.reduce_sum(inputs["one"]) > 3
    with control_flow_v2(True):
        tf.cond(condition, lambda: tf.reduce_sum(table), lambda: 0.0, name="sometimes")
    made, view = planned()
    assert [op for op, _ in caught_up(view, "sometimes")] == ["ResourceGroupEmbeddingCatchUpAll"]
    assert [one.update for one in made.report.fused_lookups] == ["deferred"]


def test_servers_catch_up_rows_before_they_gather() -> None:
    setter = tf.train.replica_device_setter(2, worker_device="/job:worker/task:0")
    with tf.device(setter):
        trained(shards=3, names=("one", "two"))
    _, view = planned(models.config(adam="deferred", require_server_ops=True))
    gathers = view.of_op("GroupEmbeddingGather")
    assert len(gathers) == 2
    for gather in gathers:
        *shards, request = [str(tensor) for tensor in view.inputs(gather)]
        (source,) = view.controls(gather)
        assert view.op(source) == "GroupEmbeddingCatchUpPacked"
        assert view.device(source) == view.device(gather)
        inputs = [str(tensor) for tensor in view.inputs(source)]
        assert inputs[: len(shards)] == shards and inputs[-1] == request
        assert len(inputs) == 3 * len(shards) + 1
    for update in view.of_op("GroupEmbeddingApplyPacked"):
        states = view.attribute(update, "row_states")
        assert states is not None and len(states.list.s) == 3


def test_a_server_is_told_which_tables_are_not_deferred() -> None:
    with tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")):
        inputs = models.batches()
        sparse = tf.sparse.from_dense(inputs["ids"])
        tables = [models.table("one"), models.table("frozen")]
        pooled = [tf.nn.safe_embedding_lookup_sparse(table, sparse) for table in tables]
        loss = models.loss_of(pooled, inputs)
        tf.train.AdamOptimizer().minimize(loss, var_list=[tables[0]])
    _, view = planned(models.config(adam="deferred", require_server_ops=True))
    (source,) = view.of_op("GroupEmbeddingCatchUpPacked")
    states = view.attribute(source, "row_states")
    assert states is not None and [text.decode() for text in states.list.s] == ["one", ""]
    names = [tensor.node for tensor in view.inputs(source)]
    assert names[2:6] == ["one/Adam", "frozen", "one/Adam_1", "frozen"]


def test_the_report_names_what_makes_each_step_dense() -> None:
    _, (table,), step = trained()
    with tf.control_dependencies([step]):
        tf.group(tf.reduce_sum(tf.abs(table), name="size"), name="train")
    report = planned()[0].report
    (reader,) = [one for one in report.dense_readers if one.in_each_step]
    assert reader.tables == ("one",) and reader.node.startswith("Abs")
    assert "dense_reader: {}".format(reader.node) in str(report)


def test_the_read_beside_an_assignment_makes_no_step_dense() -> None:
    """A train op that counts no steps is a NoOp, for which that read waits, too."""
    _, tables, step = trained(resource=True)
    with tf.control_dependencies([step]):
        tf.train.ExponentialMovingAverage(0.9).apply(tables)
    made, view = planned()
    reads = [name for name in view.of_op("ReadVariableOp") if step.name in view.controls(name)]
    assert [name for name in reads if caught_up(view, name) and not view.successors(name)]
    assert [lookup.average for lookup in made.report.fused_lookups] == ["deferred"]
    assert not [reader.node for reader in made.report.dense_readers if reader.in_each_step]


def test_rows_are_caught_up_where_they_are_prefetched() -> None:
    trained(shards=2)
    made, view = planned(models.config(adam="deferred", prefetch=True))
    (stage,) = made.report.stages
    assert [one.stage for one in made.report.lookups] == [stage.name]
    (lookup,) = [
        name
        for name in view.of_op("GroupEmbeddingLookup")
        if name.startswith(stage.name) and caught_up(view, name)
    ]
    (source,) = [name for name in view.controls(lookup) if "CatchUp" in view.op(name)]
    assert source.startswith(stage.name)
    assert not view.ancestors([source]).keys() & set(view.of_op("GroupEmbeddingCatchUpAll"))


def test_the_graph_that_leaves_the_process_is_the_users() -> None:
    _, tables, _ = trained()
    tf.reduce_sum(tables[0])
    tf.train.Saver(tables)
    before = tf.get_default_graph().as_graph_def(add_shapes=True)
    made = plan(before, session_options(DEFERRED))
    after = apply_to_graph_def(before, *made.rewrites)
    assert undo_of(before, made.rewrites).apply(after) == frozenset()
    assert {node.name: sorted(node.input) for node in after.node} == {
        node.name: sorted(node.input) for node in before.node
    }


@pytest.mark.parametrize("resource", [False, True])
def test_readers_that_are_added_later_wait_as_well(resource: bool) -> None:
    _, (table,), _ = trained(resource)
    made, _ = planned()
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    known = {node.name for node in graph_def.node}
    tf.reduce_sum(table, name="total")
    rows = tf.gather(table, tf.constant([1, 2]), name="rows")
    late = tf.identity(table, name="late")
    grown = tf.get_default_graph().as_graph_def(add_shapes=True)
    added = {node.name for node in grown.node} - known
    running = apply_to_graph_def(grown, *made.rewrites)
    deferred = made.name_map.part(DeferredVariables)
    assert deferred is not None
    rewrite, fetches = rewrite_for_new_readers(GraphView(running), deferred, added)
    assert rewrite.edited <= added
    view = GraphView(apply_to_graph_def(running, rewrite))
    total_of = view.inputs("total")[0].node if resource else "total"
    assert [op[-len("CatchUpAll") :] for op, _ in caught_up(view, total_of)] == ["CatchUpAll"]
    gathers = [name for name in view.ancestors([rows.op.name]) if "Gather" in view.op(name)]
    assert [op for op, _ in caught_up(view, gathers[0])] == [
        ("Resource" if resource else "") + "GroupEmbeddingCatchUp"
    ]
    assert set(fetches) == (set() if resource else {late.name})
    assert rewrite_for_new_readers(view, deferred, frozenset()) == (type(rewrite)(), {})


def test_a_rewritten_graph_tells_that_its_updates_are_deferred() -> None:
    trained()
    optimized = optimize_graph_def(
        tf.get_default_graph().as_graph_def(add_shapes=True),
        models.config(adam="deferred", prefetch=True),
    )
    report = report_of_rewritten(optimized.graph_def)
    assert [one.update for one in report.fused_lookups] == ["deferred"]
