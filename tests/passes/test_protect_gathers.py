"""No step allocates a table: TensorFlow's optimizer finds no pattern to rewrite."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.reporting.report import Report
from graph_opt.session.live import optimize_graph
from tests.passes import models
from tests.quick_cases import slow_but

pytestmark = pytest.mark.grappler
ROWS = 50_000


def _largest_allocation(session: tf.Session, operation: Any) -> int:
    """Bytes of the largest allocation of any kernel in one step."""
    metadata = tf.RunMetadata()
    session.run(operation, options=tf.RunOptions(trace_level=3), run_metadata=metadata)
    largest = 0
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                largest = max(largest, memory.total_bytes, memory.peak_bytes)
    return largest


def _model(moves: bool) -> Dict[str, Any]:
    inputs = models.features(rows=400)
    ids = tf.sparse.from_dense(inputs["ids"])
    if not moves:
        shift = tf.get_variable("shift", [], initializer=tf.zeros_initializer(), use_resource=False)
        values = ids.values + tf.cast(shift, tf.int64)
        ids = tf.SparseTensor(ids.indices, values, ids.dense_shape)
    big = tf.get_variable("big", [ROWS, models.WIDTH], use_resource=True)
    pooled = tf.nn.safe_embedding_lookup_sparse(big, ids, combiner="mean")
    loss, step = models.train([pooled], inputs)
    return {"loss": loss, "step": step}


def _allocations(operations: List[Any], steps_before: int) -> List[int]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        sizes = [_largest_allocation(session, operation) for operation in operations]
    # The first sparse update of a resource variable copies it, once, whatever the graph.
    return sizes[steps_before:]


def test_stock_tensorflow_copies_the_table() -> None:
    step = _model(moves=False)["step"]
    assert max(_allocations([step] * 3, 1)) >= ROWS * models.WIDTH * 4


def test_a_lookup_left_in_main_no_longer_copies_the_table() -> None:
    step = _model(moves=False)["step"]
    report = optimize_graph(tf.get_default_graph(), models.config())
    assert len(report.protected_gathers) == 1 and not report.stages
    assert "  1 gather kept from becoming whole-table reads" in str(report).splitlines()
    assert max(_allocations([step] * 3, 1)) < ROWS * models.WIDTH


def test_no_step_of_a_split_graph_allocates_a_table() -> None:
    step = _model(moves=True)["step"]
    optimize_graph(tf.get_default_graph(), models.config(capacity=4))
    scope = "async_embedding"
    names = [scope + "_io/TensorBufferPut", scope + "/TensorBufferPut"]
    graph = tf.get_default_graph()
    prefetch = [graph.get_operation_by_name(name) for name in names]
    # Puts and takes alternate: three batches, with updates in between.
    largest = max(_allocations((prefetch + [step]) * 3, 3))
    assert 0 < largest < ROWS * models.WIDTH


@pytest.mark.parametrize("resource", slow_but([False, True], True))
def test_protection_changes_no_value(resource: bool) -> None:
    values = []
    for optimize in (False, True):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(7)
            _, pooled = models.safe_model(resource=resource)
            report = optimize_graph(graph, models.config()) if optimize else None
            values.append(_first_value(graph, pooled, report))
    np.testing.assert_array_equal(values[0], values[1])


def _first_value(graph: tf.Graph, pooled: tf.Tensor, report: Optional[Report]) -> np.ndarray:
    with tf.Session(graph=graph) as session:
        session.run([v.initializer for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)])
        if report is None:
            return session.run(pooled)
        for scope in ("async_embedding_io", "async_embedding"):
            session.run(graph.get_operation_by_name(scope + "/TensorBufferPut"))
        return session.run(report.fetches[pooled.name])
