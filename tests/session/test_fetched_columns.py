"""Columns of the batch and tensors computed before the lookups are fetched with a step."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

import numpy as np
import pytest

from graph_opt import train
from graph_opt.compat import tf
from graph_opt.runtime.mark import async_embedding_mark_node
from graph_opt.runtime.staged import staged
from graph_opt.session.graph_records import report_of
from graph_opt.session.hook_fetches import fetched_by
from graph_opt.session.session import Session
from tests.passes import models

ROWS, BATCH = 32, 4


class Columns(NamedTuple):
    """A model over the columns of a log; `row` is there only to be logged."""

    ids: Any
    hashed: Any
    row: Any
    names: Any
    loss: Any
    step: Any


def columns(with_stage: bool) -> Columns:
    """Trains on `ids` and labels; main reads neither row numbers nor names."""
    rows = np.arange(ROWS)
    data = (
        rows % 7 * 3,
        rows % 2,
        rows.astype(np.int64),
        np.array(["n{}".format(row) for row in rows]),
    )
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    batch = tf.data.make_one_shot_iterator(dataset).get_next()
    ids, label, row, names = staged(batch) if with_stage else batch
    hashed = tf.floormod(ids * 5 + 1, models.VOCABULARY, name="hashed")
    bags = tf.sparse.from_dense(tf.stack([hashed, hashed], axis=1))
    pooled = tf.nn.safe_embedding_lookup_sparse(models.table(), bags, combiner="sum")
    inputs = {"dense": tf.ones([BATCH, 1]), "label": tf.cast(label, tf.float32)}
    loss, step = models.train([pooled], inputs)
    return Columns(ids, hashed, row, names, loss, step)


def ops_of(graph: Any, kind: str) -> List[Any]:
    return [op for op in graph.get_operations() if op.type == kind]


def check_batches(batches: List[Dict[str, Any]]) -> None:
    assert len(batches) == ROWS // BATCH
    for number, batch in enumerate(batches):
        rows = np.arange(number * BATCH, (number + 1) * BATCH)
        np.testing.assert_array_equal(batch["row"], rows)
        np.testing.assert_array_equal(batch["ids"], rows % 7 * 3)
        if "names" in batch:
            assert list(batch["names"]) == ["n{}".format(row).encode() for row in rows]


@pytest.mark.parametrize("with_stage", [True, False])
def test_columns_that_main_does_not_read_come_with_their_batch(with_stage: bool) -> None:
    model = columns(with_stage)
    batches = []
    with Session(config=models.config()) as session:
        session.run(tf.global_variables_initializer())
        wanted = dict(step=model.step, row=model.row, ids=model.ids, names=model.names)
        while True:
            try:
                batches.append(session.run(wanted))
            except tf.errors.OutOfRangeError:
                break
    check_batches(batches)
    stages = 2
    assert len(ops_of(session.graph, "TensorBufferPut")) == stages
    # The script's own take stays in the graph, but nothing runs it.
    assert len(ops_of(session.graph, "TensorBufferTake")) == stages + with_stage


def test_what_the_first_run_fetches_crosses_and_the_rest_is_computed_anew() -> None:
    """The first run is a step if there are no variables to initialize, as with a mark."""
    inputs = models.features()
    hashed = tf.floormod(inputs["other"] * 5, 7, name="hashed")
    inner = tf.get_default_graph().get_tensor_by_name("mul:0")
    async_embedding_mark_node(tf.square(hashed + 1, name="result"))
    result = tf.get_default_graph().get_tensor_by_name("result:0")
    tf.reduce_sum(result)
    with Session(config=models.config()) as session:
        square, first = session.run([result, hashed])
        np.testing.assert_array_equal(square, (first + 1) ** 2)
        assert session.run(hashed).shape == first.shape
        later, product = session.run([hashed, inner])
        np.testing.assert_array_equal(later, product % 7)


def logged(model: Columns, hook: Any) -> List[Dict[str, Any]]:
    batches = []
    with train.MonitoredTrainingSession(config=models.config(), hooks=[hook]) as session:
        while not session.should_stop():
            batches.append(session.run(dict(step=model.step, row=model.row, ids=model.ids)))
    return batches


class Keeper(tf.train.SessionRunHook):
    """A typical hook, which is given tensors and fetches them with each step."""

    def __init__(self, tensors: Dict[str, Any]) -> None:
        self._tensors = tensors
        self.values: List[Any] = []

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.values.append(run_values.results)


def test_what_hooks_fetch_from_before_the_lookups_crosses() -> None:
    model = columns(with_stage=True)
    hook = Keeper({"hashed": model.hashed, "row": model.row})
    check_batches(logged(model, hook))
    for batch in hook.values:
        expected = (batch["row"] % 7 * 3 * 5 + 1) % models.VOCABULARY
        np.testing.assert_array_equal(batch["hashed"], expected)


def test_a_logging_hook_names_tensors() -> None:
    model = columns(with_stage=True)
    lines: List[str] = []

    def line(values: Dict[str, Any]) -> str:
        lines.append(str(values))
        return lines[-1]

    hook = tf.train.LoggingTensorHook(["hashed:0"], every_n_iter=1, formatter=line)
    check_batches(logged(model, hook))
    assert len(lines) == ROWS // BATCH
    report = report_of(tf.get_default_graph())
    assert report is not None
    (stage,) = report.stages
    assert "hashed:0" in [tensor.name for tensor in stage.boundary]


def test_a_wrapped_sparse_tensor_is_found() -> None:
    sparse = tf.sparse.from_dense(tf.constant([[1, 2]]))
    operation = tf.no_op()
    found = fetched_by([Keeper({"inner": Keeper({"ids": [sparse], "run": operation})})])
    assert set(found) == {sparse.indices, sparse.values, sparse.dense_shape, operation}
