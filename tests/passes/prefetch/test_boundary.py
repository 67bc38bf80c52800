"""Only what main needs crosses the boundary."""

from __future__ import annotations

from typing import Set

import pytest

from graph_opt.compat import tf
from graph_opt.passes.optimize import OptimizedGraph
from graph_opt.runtime.mark import async_embedding_mark_node
from tests.passes import models


def _crossing_ops(result: OptimizedGraph) -> Set[str]:
    """Types of the ops whose outputs cross, shapes (a few integers each) left out."""
    ops = {node.name: node.op for node in result.graph_def.node}
    names = (name.rpartition(":")[0] for name in models.boundary_names(result))
    return {ops[name] for name in names} - {"Shape", "Pack"}


def test_classic_safe_lookup_ships_ids_inverse_segments_and_empty_rows() -> None:
    models.safe_model(resource=True)
    result = models.optimized()
    # Unique: ids and inverse; StridedSlice: segment ids; Tile: empty rows; Reshape: the output.
    assert _crossing_ops(result) == {
        "IteratorGetNext", "Unique", "StridedSlice", "Tile", "Reshape",
    }  # fmt: skip


def test_fast_safe_lookup_ships_raw_ids() -> None:
    models.safe_model(resource=False)
    result = models.optimized()
    assert _crossing_ops(result) == {
        "IteratorGetNext", "SparseFillEmptyRows", "StridedSlice", "Tile", "Reshape",
    }  # fmt: skip


@pytest.mark.parametrize("device, crosses", [("/cpu:0", True), ("/gpu:0", False)])
def test_the_mask_of_empty_rows_crosses_before_it_is_tiled_if_that_saves_a_copy(
    device: str, crosses: bool
) -> None:
    with tf.device(device):
        models.safe_model(resource=True)
    assert ("Tile" in _crossing_ops(models.optimized())) == crosses


def test_the_mask_of_another_task_crosses_before_it_is_tiled() -> None:
    with tf.device("/job:worker/task:0"):
        inputs = models.features()
    with tf.device("/job:ps/task:0"):
        ids = tf.sparse.from_dense(inputs["ids"])
        pooled = tf.nn.safe_embedding_lookup_sparse(models.table(resource=True), ids)
    models.train([pooled], inputs)
    (stage,) = models.optimized().stages
    masks = [tensor for tensor in stage.boundary if tensor.dtype == "bool"]
    assert [mask.shape for mask in masks] == [(None, 1)]


@pytest.mark.parametrize("resource", [False, True])
def test_bytes_of_a_plain_lookup_are_ids_rows_and_features(resource: bool) -> None:
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(resource=resource), inputs["other"])
    models.train([rows], inputs)
    (stage,) = models.optimized().stages
    per_row = {tensor.name: tensor.bytes_per_row for tensor in stage.boundary}
    assert per_row.pop(rows.name) == models.WIDTH * 4
    assert per_row.pop(inputs["other"].name) == 8
    assert per_row.pop(inputs["dense"].name) == 4 * 4
    assert per_row.pop(inputs["label"].name) == 4
    assert per_row == {inputs["ids"].name: 3 * 8}  # of the source, so that it can be fetched


def test_a_tensor_read_only_for_its_shape_does_not_cross() -> None:
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(), tf.reshape(inputs["ids"], [-1]), name="rows")
    pooled = tf.segment_sum(rows, tf.range(tf.size(inputs["ids"])) // 3, name="pooled")
    async_embedding_mark_node(pooled)
    models.train([tf.reshape(pooled, [-1, models.WIDTH])], inputs)
    assert rows.name not in models.boundary_names(models.optimized())


def test_zeros_of_a_hidden_tensor_are_made_from_its_shape() -> None:
    models.safe_model(resource=True)
    result = models.optimized()
    fills = [n for n in result.graph_def.node if n.op == "Fill" and n.name.startswith("async_emb")]
    assert fills
    hidden_zeros = [n.name for n in result.graph_def.node if n.op == "ZerosLike"]
    assert not set(hidden_zeros) & {name[:-2] for name in models.boundary_names(result)}


def test_a_view_of_a_crossing_tensor_is_computed_again_in_main() -> None:
    inputs = models.features()
    ids = inputs["other"]
    rows = tf.nn.embedding_lookup(models.table(), tf.reshape(ids, [-1], name="flat"))
    models.train([rows, tf.cast(ids, tf.float32)[:, tf.newaxis]], inputs)
    names = models.boundary_names(models.optimized())
    assert ids.name in names and "flat:0" not in names


def test_gradients_that_nothing_reads_do_not_make_rows_cross() -> None:
    inputs = models.features()
    ids = tf.sparse.from_dense(inputs["ids"])
    weights = tf.SparseTensor(ids.indices, tf.to_float(ids.values), ids.dense_shape)
    pooled = tf.nn.embedding_lookup_sparse(
        models.table(), ids, weights, combiner="sum", name="weighted"
    )
    models.train([tf.reshape(pooled, [-1, models.WIDTH])], inputs)
    result = models.optimized()
    ops = {node.name: node.op for node in result.graph_def.node}
    crossing = {ops[name[:-2]] for name in models.boundary_names(result)}
    assert "GatherV2" not in crossing


def test_no_table_and_no_variable_crosses() -> None:
    models.safe_model(resource=True, partitions=2)
    (stage,) = models.optimized().stages
    shapes = [tensor.shape for tensor in stage.boundary]
    assert (models.VOCABULARY, models.WIDTH) not in shapes
    assert (models.VOCABULARY // 2, models.WIDTH) not in shapes
    assert "resource" not in {tensor.dtype for tensor in stage.boundary}


def test_all_features_that_main_needs_cross_with_the_lookups() -> None:
    inputs, pooled = models.safe_model()
    (stage,) = models.optimized().stages
    names = {tensor.name for tensor in stage.boundary}
    assert {inputs["label"].name, inputs["dense"].name, pooled.name} <= names


def test_a_marked_tensor_inside_a_lookup_crosses_and_the_lookup_moves() -> None:
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"], name="rows")
    gathered = tf.get_default_graph().get_tensor_by_name("rows:0")
    assert gathered is not rows
    async_embedding_mark_node(gathered)
    models.train([rows], inputs)
    result = models.optimized()
    assert gathered.name in models.boundary_names(result)
    assert set(models.codes(result)) == {None}
