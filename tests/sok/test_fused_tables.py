"""Updates of tables that are sharded across ranks, fused by a session of graph_opt's."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings
from graph_opt.sharding.divided_gradients import divided_by
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank
from graph_opt.sok.communication import communicating_through
from tests.sok.trained_tables import BATCH, OPTIMIZERS, SHAPES, train_part, train_stock

STEPS = 12
CUTS: Dict[int, List[int]] = {1: [0, BATCH], 2: [0, 2, BATCH], 3: [0, 4, 4, BATCH]}

CASES: List[Any] = [("adagrad", 1), ("momentum", 2), ("adam", 3)]
CASES += [
    pytest.param(optimizer, ranks, marks=pytest.mark.slow)
    for optimizer in sorted(OPTIMIZERS)
    for ranks in CUTS
    if (optimizer, ranks) not in CASES
]
READERS = ("ResourceExchangeGather", "ResourceGroupEmbeddingLookup")
UPDATES = ("ResourceGroupEmbeddingApply", "ResourceExchangeApply")
CATCH_UPS = (
    "ResourceGroupEmbeddingCatchUp",
    "ResourceGroupEmbeddingCatchUpExchanged",
)


def fusing(graphs: List[Any]) -> Callable[[], Any]:
    """Opens sessions that fuse, and notes their graphs."""

    def open_session() -> Any:
        config = graph_opt.ConfigProto()
        config.graph_options.optimizer_options.do_group_embedding = True
        graphs.append(tf.get_default_graph())
        return graph_opt.Session(config=config)

    return open_session


@pytest.mark.parametrize(("optimizer", "ranks"), CASES)
def test_it_trains_as_tensorflow_does_with_the_whole_batch(optimizer: str, ranks: int) -> None:
    graphs: List[Any] = []
    parts = run_ranks(
        ranks,
        lambda transport: train_part(transport, optimizer, CUTS[ranks], STEPS, fusing(graphs)),
        timeout_seconds=30,
    )
    stock = train_stock(optimizer, STEPS)
    for of_rank in parts:
        for part, whole in zip(of_rank, stock):
            np.testing.assert_allclose(part.rows, whole[part.keys], rtol=2e-5, atol=2e-5)
    for graph in graphs:
        running = graph_opt.running_graph_def(graph)
        applied = [node for node in running.node if node.op in UPDATES]
        assert [node.op for node in applied] == [UPDATES[ranks > 1]]
        waits = [name for node in running.node if node.op in READERS for name in node.input]
        caught_up = [name for name in waits if name.startswith("^") and "catch_up" in name]
        catch_ups = {node.op for node in running.node if "^" + node.name in caught_up}
        assert catch_ups == ({CATCH_UPS[ranks > 1]} if optimizer == "adam" else set())
        assert len(applied[0].attr["table_names"].list.s) == len(SHAPES)


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
@pytest.mark.parametrize("divisor", [None, 3])
def test_one_op_sums_and_updates_to_the_same_bits_as_two(
    optimizer: str, divisor: Optional[int]
) -> None:
    def scaled(gradients: List[Any], factor: Any) -> List[Any]:
        found = [divided_by(one, divisor) if divisor else one for one in gradients]
        values = found[0].values if factor is None else found[0].values * factor
        return [tf.IndexedSlices(values, found[0].indices, found[0].dense_shape), *found[1:]]

    def trained(factor: Any) -> Any:
        graphs: List[Any] = []
        parts = run_ranks(
            3,
            lambda transport: train_part(
                transport,
                optimizer,
                CUTS[3],
                STEPS,
                fusing(graphs),
                lambda gradients: scaled(gradients, factor),
            ),
            timeout_seconds=30,
        )
        ops = {node.op for node in graph_opt.running_graph_def(graphs[0]).node}
        return ops, [part.rows.tobytes() for of_rank in parts for part in of_rank]

    ops, rows = trained(None)
    other_ops, other_rows = trained(1.0)  # which the update does not know to change nothing
    assert "ResourceExchangeApply" in ops and "ResourceExchangeApply" not in other_ops
    assert "ResourceGroupEmbeddingApply" in other_ops
    assert rows == other_rows


def test_the_session_says_that_updates_are_fused(capfd: pytest.CaptureFixture[str]) -> None:
    forget_warnings()  # of the whole process, which would be in this report as well
    run_ranks(2, lambda transport: train_part(transport, "adagrad", CUTS[2], 1, fusing([])))
    said = capfd.readouterr().err
    assert said.count("3 of 3 lookups fused into 1 op\n") == 2, graph_opt.session_reports()[-1]


def test_an_optimizer_of_ours_leaves_nothing_to_fuse(capfd: pytest.CaptureFixture[str]) -> None:
    forget_warnings()
    with tf.Graph().as_default(), communicating_through(OneRank()):
        table = sok.Variable(shape=[20, 4], initializer="ones")
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([1, 2], tf.int64)))
        gradients = zip(tf.gradients(loss, [table]), [table])
        train = sok.optimizers.Adam(0.01).apply_gradients(gradients)
        with fusing([])() as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
    told = graph_opt.session_reports()[-1]
    assert "1 of 1 lookup in an op of its own\n" in capfd.readouterr().err, told
    assert told.report.fused_lookups[0].update == "fused"
