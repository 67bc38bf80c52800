"""The graph that is exported is the one that the user built, whatever graph_opt did to it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.export.users_graph import is_ours
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given
from tests.export.served_model import (
    SERVED,
    ServedModel,
    batches,
    config,
    served_model,
    stock_scores,
)
from tests.quick_cases import slow_but
from tests.session.small_model import report_on


@pytest.fixture(autouse=True)
def no_warnings_yet() -> None:
    forget_warnings()


def optimized() -> ServedModel:
    model = served_model()
    graph_opt.optimize_graph(model.scores.graph, config())
    return model


def by_name(graph_def: Any) -> Dict[str, Any]:
    return {node.name: node for node in graph_def.node}


def sorted_inputs(graph_def: Any) -> Any:
    for node in graph_def.node:
        node.input[:] = sorted(node.input)
    return graph_def


def our_ops(graph_def: Any) -> List[str]:
    return [node.op for node in graph_def.node if is_ours(node.op)]


@pytest.mark.parametrize("add_shapes", slow_but([False, True], True))
def test_every_node_is_exported_as_it_was_built_and_in_its_place(add_shapes: bool) -> None:
    model = served_model()
    graph = model.scores.graph
    built = graph.as_graph_def(add_shapes=add_shapes)
    graph_opt.optimize_graph(graph, config())
    assert graph.as_graph_def(add_shapes=add_shapes) == built
    assert graph.as_graph_def(from_version=0).versions == built.versions
    assert len(graph_opt.running_graph_def(graph).node) > len(built.node)
    assert our_ops(graph_opt.running_graph_def(graph))


def test_graphs_on_parameter_servers_keep_their_devices() -> None:
    features = tf.data.make_one_shot_iterator(batches()).get_next()
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        model = served_model(features)
    graph = model.scores.graph
    built = graph.as_graph_def()
    asked = config()
    asked.graph_options.optimizer_options.group_embedding_options.require_server_ops = False
    graph_opt.optimize_graph(graph, asked)
    assert len(graph_opt.running_graph_def(graph).node) > len(built.node)
    assert graph.as_graph_def() == built


def test_nodes_added_later_read_what_the_user_built() -> None:
    model = optimized()
    graph = model.scores.graph
    built = set(by_name(graph.as_graph_def()))
    logits = model.scores.op.inputs[0].op.inputs[0].op.inputs[0]  # what the MatMul reads
    assert logits.name not in built
    with tf.control_dependencies([logits]), tf.colocate_with(logits.op):
        added = tf.identity(logits * 2.0, name="added")
    exported = by_name(graph.as_graph_def())
    assert set(exported) - built == {added.op.name, "mul", "mul/y"}
    assert not our_ops(graph.as_graph_def())
    for name in ("mul", "added"):
        for text in exported[name].input:
            assert text.lstrip("^").partition(":")[0] in exported
        assert not any(group.startswith(b"loc:@group") or group.startswith(b"loc:@async")
                       for group in exported[name].attr["_class"].list.s)  # fmt: skip
    with tf.Graph().as_default():
        tf.import_graph_def(graph.as_graph_def())
    assert warnings_given() == ()


def test_a_node_of_ours_that_the_user_reads_stays_and_is_named() -> None:
    model = optimized()
    graph = model.scores.graph
    size = next(op for op in graph.get_operations() if op.type == "TensorBufferSize")
    tf.identity(size.outputs[0], name="waiting")
    exported = by_name(graph.as_graph_def())
    assert "waiting" in exported and size.name in exported
    (warning,) = warnings_given()
    assert size.name in warning and "docs/exporting.md" in warning
    graph.as_graph_def()
    assert len(warnings_given()) == 1


def test_a_scope_is_exported_as_it_was_built() -> None:
    with tf.variable_scope("tower"):
        model = served_model()
    built = tf.train.export_meta_graph(export_scope="tower", clear_devices=True)
    graph_opt.optimize_graph(model.scores.graph, config())
    exported = tf.train.export_meta_graph(export_scope="tower", clear_devices=True)
    # TensorFlow writes control inputs here in the order in which they were added.
    assert sorted_inputs(exported.graph_def) == sorted_inputs(built.graph_def)
    assert exported.collection_def == built.collection_def


def test_a_node_of_ours_in_a_collection_is_named() -> None:
    model = optimized()
    takes = [op for op in model.scores.graph.get_operations() if op.type == "TensorBufferTake"]
    tf.add_to_collection("inputs", takes[0].outputs[0])
    tf.add_to_collection("inputs", model.user)
    tf.train.export_meta_graph()
    (warning,) = warnings_given()
    assert "collection 'inputs' holds '{}'".format(takes[0].outputs[0].name) in warning


def test_where_nodes_were_made_is_exported_too(tmp_path: Path) -> None:
    served_model(group=True)
    path = str(tmp_path / "model.meta")
    meta = tf.train.export_meta_graph(path, save_debug_info=True)
    assert not our_ops(meta.graph_def)
    assert b"served_model.py" in Path(path[: -len("meta")] + "debug").read_bytes()


def test_other_graphs_and_their_class_are_tensorflows() -> None:
    model = optimized()
    other = tf.Graph()
    assert type(other) is tf.Graph
    assert isinstance(model.scores.graph, tf.Graph)
    assert type(model.scores.graph).__name__ == "Graph"


@pytest.mark.parametrize("made", [served_model, lambda: served_model(group=True)])
def test_an_exported_graph_is_imported_and_trained_with_both_flags(
    made: Callable[[], ServedModel], tmp_path: Path
) -> None:
    model = made()
    with graph_opt.Session(config=config()) as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path + ".meta")
        with graph_opt.Session(config=config()) as session:
            saver.restore(session, path)
            for _ in range(4):
                session.run(model.train_op.name)
            scores = values_by_numpy(session)
        assert len(report_on(graph).fused) == 2 and report_on(graph).moved
    np.testing.assert_allclose(scores, stock_scores(4), rtol=1e-5)


def values_by_numpy(session: Any) -> np.ndarray:
    """Scores of the served rows, with the current values of the variables."""
    users = session.run(by_variable(session.graph, "users"))
    items = np.concatenate(
        [session.run(by_variable(session.graph, "items/part_{}".format(i))) for i in range(2)]
    )
    dense = session.run(by_variable(session.graph, "dense"))
    pooled = [users[SERVED["user"]], items[np.array(SERVED["item"])].mean(axis=1)]
    return 1.0 / (1.0 + np.exp(-np.concatenate(pooled, 1) @ dense))[:, 0]


def by_variable(graph: Any, name: str) -> Any:
    (found,) = (v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) if v.op.name == name)
    return found


def test_a_stage_of_the_script_is_put_back_in_an_imported_graph(tmp_path: Path) -> None:
    features = tf.data.make_one_shot_iterator(batches()).get_next()
    staged = graph_opt.staged(features, capacity=3, num_threads=2, name="input")
    model = served_model(staged)
    asked = config(infer_io_stage=False)
    with graph_opt.Session(config=asked) as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path + ".meta")
        with graph_opt.Session(config=asked) as session:
            saver.restore(session, path)
            users = [list(session.run([model.user.name, model.train_op.name])[0]) for _ in range(4)]
            scores = values_by_numpy(session)
        (stage,) = report_on(graph).stages
        puts = [op for op in graph.get_operations() if op.type == "TensorBufferPut"]
    assert stage.io_source == "input/TensorBufferTake" and not stage.inferred
    assert sorted(user for batch in users for user in batch) == list(range(32))
    # Sources of an imported graph are not ordered across threads, so there is only one.
    assert {put.get_attr("_stage_threads") for put in puts} == {1}
    assert {put.get_attr("shared_capacity") for put in puts} == {2, 3}
    np.testing.assert_allclose(scores, stock_scores(4), rtol=1e-5)


def test_what_joined_stages_lose_is_said_once() -> None:
    sources = [tf.data.make_one_shot_iterator(batches()).get_next() for _ in range(2)]
    features = graph_opt.prefetch_join(sources)
    graph = features["user"].graph
    assert not our_ops(graph.as_graph_def())
    assert not our_ops(graph.as_graph_def())
    (warning,) = warnings_given()
    assert "stage 'prefetch_join'" in warning and "2 threads" in warning


def test_a_rewritten_graph_that_was_imported_is_exported_unsplit() -> None:
    with tf.Graph().as_default() as built:
        model = served_model()
    asked = config(fuse=False)
    rewritten = graph_opt.optimize_graph_def(built.as_graph_def(add_shapes=True), asked)
    tf.import_graph_def(rewritten.graph_def, name="")
    graph = tf.get_default_graph()
    initializers = [op.name for op in graph.get_operations() if op.name.endswith("/Assign")]
    with graph_opt.Session(config=asked) as session:
        session.run(initializers)
        exported = session.graph_def
    assert our_ops(rewritten.graph_def) and not our_ops(exported)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(exported, name="")
        session.run(initializers)
        for _ in range(4):
            session.run(model.train_op.name)
        users = session.run("users/Read/ReadVariableOp:0")
    with tf.Session(graph=built) as session:
        session.run(initializers)
        for _ in range(4):
            session.run(model.train_op.name)
        np.testing.assert_allclose(users, session.run("users/Read/ReadVariableOp:0"), rtol=1e-6)


def test_ops_of_ours_in_functions_are_named() -> None:
    table = tf.get_variable("table", [8, 2])

    @functools.partial(tf.function, autograph=False)
    def look_up(ids: Any) -> Any:
        return graph_opt.group_embedding_lookup_sparse([table], [ids], "sum")[0]

    rows = look_up(tf.constant([1, 2], tf.int64))
    graph_opt.group_embedding_lookup_sparse([table], [tf.constant([1])], "sum")
    rows.graph.as_graph_def()
    (warning,) = warnings_given()
    assert "in function" in warning and "look_up" in warning


def test_an_embedding_column_is_looked_up_once_in_exports() -> None:
    ids = {name: tf.placeholder(tf.int64, [None], name) for name in "abc"}
    with graph_opt.group_embedding_column_scope():
        columns = [
            tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity(name, 8, default_value=0), 2
            )
            for name in ids
        ]
    layer = tf.feature_column.input_layer(ids, columns)
    exported = layer.graph.as_graph_def()
    assert not our_ops(exported)
    lookups = [node.name for node in exported.node if node.op == "SparseFillEmptyRows"]
    assert len(lookups) == 3
    feed = {placeholder.name: [1, 5] for placeholder in ids.values()}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = session.run(layer, feed)
        frozen = tf.graph_util.convert_variables_to_constants(
            session, session.graph_def, [layer.op.name]
        )
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(session.run(layer.name, feed), expected)
