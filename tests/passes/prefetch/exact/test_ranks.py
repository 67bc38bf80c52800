"""Lookups of sharded tables: owners send the rows that have changed, in main."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.passes.prefetch.exact.exact_tables import ROW_LOG
from graph_opt.sharding.in_process import InProcessGroup
from graph_opt.sok.communication import communicating_through
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed
from tests.passes.prefetch.exact.exact_models import bags, exact, limited, refusals, told
from tests.session.test_exact_rows import batches, sparse
from tests.sharding.exact_ranks import table

SCOPE = "exact_rows/graph_opt/ExchangeCombine/"
SHORT = {
    SCOPE: "exact/",
    "graph_opt/graph_opt_exchange_rows": "rows",
    "graph_opt/graph_opt_exchange_ids": "requests",
    "graph_opt/": "",
    "group_embedding/": "",
    "gradients/graph_opt/graph_opt_exchange_rows_grad/graph_opt_exchange_rows_gradients": "sent",
}
ATTRIBUTES = ("row_logs", "row_log_length", "may_miss", "pool_on_server", "message")


@pytest.fixture(autouse=True)
def first_of_two_ranks() -> Iterator[None]:
    """Messages are written as those of this rank."""
    with communicating_through(InProcessGroup(2).transport(0)):
        yield


def exchanged(inputs: Dict[str, Any]) -> List[Any]:
    return list(sok.lookup_sparse([table("t", 4)], [sparse(inputs)], [None], combiners=["mean"]))


def drawn(passed: Passed) -> List[str]:
    """What changed, but for what writes the table and what main already computed from rows."""
    found = passed.drawn(SHORT, *ATTRIBUTES)
    skipped = ("t/Assign", "exact/counts", "Sum", "gradients/")
    return [line for line in found if not line[2:].startswith(skipped)]


def test_owners_send_what_has_changed_in_a_message_of_main() -> None:
    assert drawn(exact(exchanged)) == lines("""
        - GroupEmbeddingPrepare = GroupEmbeddingPrepare(GatherNd, Where, Shape) \
          pool_on_server='auto'
        + GroupEmbeddingPrepare = GroupEmbeddingPrepare(GatherNd, Where, Shape) \
          pool_on_server='never'
        - ResourceExchangeGather = ResourceExchangeGather(t, requests, requests:1)
        + ResourceExchangeGather = ResourceExchangeGather(t, requests, requests:1, ^exact/position)
        - update_0/apply = ResourceExchangeApply(t, t/Adagrad, update_0/hyperparameter_0, \
          update_0/hyperparameter_1, requests, requests:1, sent)
        + update_0/apply = ResourceExchangeApply(t, t/Adagrad, update_0/hyperparameter_0, \
          update_0/hyperparameter_1, requests, requests:1, sent) row_logs=['t'] row_log_length=3
        + exact/position = RowLogPosition(requests, requests:1) row_logs=['t']
        + exact/changed = ResourceExchangeChangedRows(t, requests, requests:1, exact/position) \
          row_logs=['t'] may_miss=[0]
        + exact/graph_opt_exchange_changed = ExchangeAllToAll(exact/changed, exact/changed:1) \
          message='graph_opt_exchange_changed'
        + exact/pooled = ExchangeRefresh(rows, rows:1, GroupEmbeddingPrepare:2, \
          GroupEmbeddingPrepare:3, GroupEmbeddingPrepare, GroupEmbeddingPrepare:1, \
          exact/graph_opt_exchange_changed, exact/graph_opt_exchange_changed:1, GatherNd, Where, \
          Shape, ExchangeCombine)
        + exact_rows_writers/t/all = RowLogAll() row_logs=['t']
    """)


def test_layers_read_what_is_refreshed() -> None:
    passed = exact(exchanged)
    fresh = SCOPE + "pooled"
    assert passed.name_map.substitutes == {"graph_opt/ExchangeCombine:0": fresh + ":0"}
    assert passed.moved() == [
        "Sum:0 graph_opt/ExchangeCombine -> " + fresh,
        "gradients/Sum_grad/Shape:0 graph_opt/ExchangeCombine -> " + fresh,
    ]
    assert passed.report.changes == (
        "1 lookup with exact rows of other ranks, which send what their updates wrote since",
    )


def test_limits_are_what_owners_may_leave_out() -> None:
    passed = exact(exchanged, options=limited(t=3))
    changed = passed.view.nodes[SCOPE + "changed"]
    assert list(changed.attr["may_miss"].list.i) == [3]


def test_tables_without_a_limit_have_no_log() -> None:
    def both(inputs: Dict[str, Any]) -> List[Any]:
        tables = [table("near", 4), table("far", 4)]
        return list(
            sok.lookup_sparse(tables, [sparse(inputs)] * 2, [None] * 2, combiners=["sum"] * 2)
        )

    passed = exact(both, options=limited(near=3))
    changed = passed.view.nodes[SCOPE + "changed"]
    assert list(changed.attr["row_logs"].list.s) == [b"near", b""]
    assert list(changed.attr["may_miss"].list.i) == [3, 0]


def test_a_step_of_two_inputs_stays_in_main() -> None:
    def of_two(inputs: Dict[str, Any]) -> List[Any]:
        other = tf.reduce_sum(batches(2, 1)["one"])
        return [exchanged(inputs)[0] * tf.cast(other, tf.float32)]

    passed = exact(of_two)
    assert passed.drawn() == []
    assert refusals(passed) == [("exact_several_inputs", "graph_opt/ExchangeCombine")]


def test_a_part_that_something_else_writes_stays_in_main() -> None:
    def scattered(inputs: Dict[str, Any]) -> List[Any]:
        rows = exchanged(inputs)
        (variable,) = tf.trainable_variables()
        tf.raw_ops.ResourceScatterUpdate(
            resource=variable.handle, indices=[0], updates=tf.zeros([1, 4]), name="scatter"
        )
        return rows

    passed = exact(scattered)
    assert passed.drawn() == [] and refusals(passed) == [("exact_table_written", "scatter")]


def test_tables_of_the_process_beside_them_have_logs_of_their_own() -> None:
    passed = exact(exchanged, bags("own"))
    assert told(passed).followers == {"own": ROW_LOG, "t": ROW_LOG}
    assert len(passed.view.of_op("RowLogPosition")) == 2
