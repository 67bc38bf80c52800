"""What main does to refresh results of lookups, and which lookups it is done for."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.passes.prefetch.exact.exact_rows import refuse_inexact
from graph_opt.passes.prefetch.exact.exact_tables import ROW_LOG
from graph_opt.rules import find_lookups
from tests.control_flow import control_flow_v2
from tests.passes import models
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, options_of
from tests.passes.prefetch.exact.exact_models import (
    SHORT,
    Lookups,
    bags,
    exact,
    limited,
    refusals,
    single,
    told,
    trained,
)
from tests.session.test_exact_rows import config, sparse, table

LOGS = ("row_logs", "row_log_length", "may_miss", "ahead_choice")


def drawn(passed: Passed) -> List[str]:
    """What changed, without what writes the table but for its update, and the count of rows."""
    found = passed.drawn(SHORT, *LOGS)
    return [line for line in found if "Assign" not in line and "/counts" not in line]


def test_main_pools_again_what_the_log_says_was_written() -> None:
    assert drawn(exact(bags())) == lines("""
        - Sum = Sum(pooled, Const)
        + Sum = Sum(exact/pooled, Const)
        - gradients/Sum_grad/Shape = Shape(pooled)
        + gradients/Sum_grad/Shape = Shape(exact/pooled)
        - pooled = GroupEmbeddingLookup(table, GatherNd, Where, Shape)
        + pooled = GroupEmbeddingLookup(table, GatherNd, Where, Shape, ^exact/position) \
          ahead_choice='pooled'
        - update_0/apply = GroupEmbeddingApply(table, table/Adagrad, update_0/hyperparameter_0, \
          update_0/hyperparameter_1, GatherNd, Where, Shape, gradients/Sum_grad/Tile)
        + update_0/apply = GroupEmbeddingApply(table, table/Adagrad, update_0/hyperparameter_0, \
          update_0/hyperparameter_1, GatherNd, Where, Shape, gradients/Sum_grad/Tile) \
          row_logs=['table'] row_log_length=3
        + exact/position = RowLogPosition(GatherNd, Where, Shape) row_logs=['table'] \
          ahead_choice='pooled'
        + exact/pooled = GroupEmbeddingRefresh(table, GatherNd, Where, Shape, pooled, \
          exact/position) row_logs=['table'] may_miss=[0] ahead_choice='pooled'
        + exact_rows_writers/table/all = RowLogAll() row_logs=['table']
    """)


@pytest.mark.parametrize("resource", [False, True])
def test_whatever_sets_the_whole_table_tells_the_log(resource: bool) -> None:
    def assigned(inputs: Dict[str, Any]) -> List[Any]:
        variable = table("table", 4, resource)
        tf.assign(variable, tf.zeros_like(variable), name="reset")
        return [tf.nn.safe_embedding_lookup_sparse(variable, sparse(inputs))]

    passed = exact(assigned)
    (log,) = passed.view.of_op("RowLogAll")
    writers = [name for name in passed.view.nodes if log in passed.view.controls(name)]
    assert writers == ["table/Assign", "reset"]


def test_what_waited_for_the_lookup_waits_for_its_rows_as_they_are_now() -> None:
    def waited_for(inputs: Dict[str, Any]) -> List[Any]:
        rows = bags()(inputs)
        with tf.control_dependencies(rows):
            tf.no_op(name="behind")
        return rows

    changed = exact(waited_for).drawn(SHORT)
    assert "- behind = NoOp(^pooled)" in changed and "+ behind = NoOp(^exact/pooled)" in changed


def test_a_fetched_result_is_the_one_that_is_refreshed() -> None:
    passed = exact(bags())
    (name, to) = list(passed.name_map.substitutes.items())[-1]
    assert name == "embedding_lookup/Reshape_2:0" or name.startswith("table_lookup")
    assert to == "exact_rows/group_embedding/lookup_0/pooled/pooled:0"
    assert passed.report.changes[-1] == (
        "1 lookup with exact rows: what updates wrote since is read again"
    )


def test_shards_have_a_log_each_and_stay_with_their_variables() -> None:
    passed = exact(bags(shards=2))
    (fresh,) = passed.view.of_op("GroupEmbeddingRefresh")
    node = passed.view.nodes[fresh]
    shards = [b"table/part_0", b"table/part_1"]
    assert list(node.attr["row_logs"].list.s) == shards
    assert list(node.attr["_class"].list.s) == [b"loc:@" + each for each in shards]
    assert list(node.input)[:2] == ["table/part_0", "table/part_1"]


def test_a_table_read_twice_is_logged_once() -> None:
    def again(inputs: Dict[str, Any]) -> List[Any]:
        rows = table("table", 4)
        return [
            tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs)),
            tf.nn.embedding_lookup(rows, inputs["one"]),
        ]

    passed = exact(again)
    assert len(passed.view.of_op("GroupEmbeddingRefresh")) == 2
    (update,) = passed.view.of_op("GroupEmbeddingApply")
    assert list(passed.view.nodes[update].attr["row_logs"].list.s) == [b"table"]
    assert len(passed.view.of_op("RowLogAll")) == 1


def test_only_tables_with_a_limit_are_refreshed_and_only_so_far() -> None:
    passed = exact(bags("near"), bags("far"), options=limited(near=2))
    found = {line for line in drawn(passed) if "Refresh(" in line or line.startswith("+ update_0")}
    assert {line.partition(" row_logs")[2] for line in found} == {
        "=['near', ''] may_miss=[2, 0] ahead_choice='pooled'",
        "=['near', ''] row_log_length=10",
    }
    assert dict(told(passed).bounded) == {"near": 2}


def test_a_limit_that_no_row_exceeds_changes_nothing() -> None:
    passed = exact(bags(), options=limited(table=9))
    assert passed.drawn() == []
    assert passed.report.warnings == ()


def test_a_limit_of_no_table_is_a_warning() -> None:
    passed = exact(bags(), options=limited(tabel=1))
    assert passed.drawn() == []
    (warning,) = passed.report.warnings
    assert "'tabel' matches no table" in warning


def test_nothing_happens_without_the_option() -> None:
    assert exact(bags(), options=config(1, 1, exact=False)).is_idle


def test_nothing_is_refreshed_where_nothing_runs_ahead() -> None:
    options = config(1, 1)
    options.graph_options.optimizer_options.do_async_embedding = False
    assert exact(bags(), options=options).is_idle


def test_a_lookup_that_cannot_run_ahead_is_left_as_it_is() -> None:
    def behind_a_placeholder(inputs: Dict[str, Any]) -> List[Any]:
        ids = inputs["one"] + tf.placeholder(tf.int32, [])
        return [tf.nn.embedding_lookup(table("table", 4), ids)]

    passed = exact(behind_a_placeholder)
    assert passed.drawn() == [] and refusals(passed) == []


def test_a_lookup_that_no_step_runs_is_left_as_it_is() -> None:
    def unused(inputs: Dict[str, Any]) -> List[Any]:
        tf.nn.embedding_lookup(table("unused", 4), inputs["one"], name="unused_rows")
        return bags()(inputs)

    assert not any("unused" in line for line in exact(unused).drawn())


def scattered(inputs: Dict[str, Any]) -> List[Any]:
    rows = table("table", 4)
    tf.scatter_update(rows, [0], tf.zeros([1, 4]), name="scatter")
    return [tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs))]


def in_a_branch(inputs: Dict[str, Any]) -> List[Any]:
    rows = table("table", 4)
    with control_flow_v2(False):
        tf.cond(
            tf.timestamp() > 0,
            lambda: tf.scatter_update(rows, [0], tf.zeros([1, 4])) + 0.0,
            lambda: rows + 0.0,
        )
    return [tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs))]


def of_a_gpu(inputs: Dict[str, Any]) -> List[Any]:
    with tf.device("/device:GPU:0"):
        rows = table("table", 4)
        return [tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs))]


@pytest.mark.parametrize(
    "lookups, code, node",
    [
        (scattered, "exact_table_written", "scatter"),
        (in_a_branch, "exact_table_written", "cond/ScatterUpdate"),
        (of_a_gpu, "exact_elsewhere", "table"),
    ],
)
def test_tables_of_which_not_all_writes_are_known(lookups: Lookups, code: str, node: str) -> None:
    passed = exact(lookups)
    assert passed.drawn() == []
    assert refusals(passed) == [(code, node)]


def test_rows_that_every_step_moves_are_never_exact() -> None:
    options = config(1, 1)
    options.graph_options.optimizer_options.group_embedding_options.adam = "deferred"

    def adam(rows: Any) -> Any:
        return tf.train.AdamOptimizer().minimize(tf.add_n(rows))

    passed = exact(bags(), train=adam, options=options)
    assert passed.drawn() == [] and refusals(passed) == [("exact_table_written", "table")]


def test_variables_of_a_server_may_have_other_writers() -> None:
    passed = exact(bags(), async_embedding={"is_served": True})
    assert passed.drawn() == [] and refusals(passed) == [("exact_elsewhere", "table")]


def test_tables_of_a_worker_among_several_tasks_may_have_other_writers() -> None:
    with tf.device("/job:worker/task:0"):
        passed = exact(bags())
    assert passed.drawn() == [] and refusals(passed) == [("exact_elsewhere", "table")]


def of_one_op(inputs: Dict[str, Any]) -> List[Any]:
    return [*scattered(inputs), *bags("other")(inputs)]


def of_two_ops(inputs: Dict[str, Any]) -> List[Any]:
    return [*scattered(inputs), *single("other")(inputs)]


def test_a_table_that_something_else_writes_keeps_its_whole_op_in_main() -> None:
    with tf.Graph().as_default():
        assert exact(of_one_op).drawn() == []
    passed = exact(of_two_ops)
    assert told(passed).followers == {"other": ROW_LOG}
    assert refusals(passed) == [("exact_table_written", "scatter")]


def test_a_table_without_a_limit_may_have_other_writers() -> None:
    passed = exact(of_one_op, options=limited(other=1))
    assert told(passed).followers == {"other": ROW_LOG} and refusals(passed) == []


def test_what_is_not_fused_does_not_run_ahead() -> None:
    options = config(1, 1)
    group = options.graph_options.optimizer_options.group_embedding_options
    group.lookups.append("no lookup has this name")
    passed = exact(bags(), options=options)
    (lookup,) = find_lookups(passed.view).lookups
    ahead = options_of(options).async_embedding
    assert passed.drawn() == [] and ahead is not None
    refusal = refuse_inexact(lookup, told(passed), ahead)
    assert refusal is not None and refusal.code == "exact_not_fused"
    assert refuse_inexact(lookup, None, ahead) is None


def test_lookups_in_main_are_told_from_those_without_a_limit() -> None:
    options = limited(near=2)
    passed = exact(bags("near"), bags("far"), options=options, train=trained)
    ahead = options_of(options).async_embedding
    assert ahead is not None
    for lookup in find_lookups(passed.view).lookups:
        assert refuse_inexact(lookup, told(passed), ahead) is None


def test_a_lookup_that_would_stay_in_any_case_is_refused_for_that_reason() -> None:
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"] + tf.placeholder(tf.int64, []))
    models.train([rows], inputs)
    wanted = models.config(exact=True)
    wanted.graph_options.optimizer_options.do_group_embedding = True
    graph_def = running_graph_def(tf.get_default_graph(), add_shapes=True)
    assert models.codes(optimize_graph_def(graph_def, wanted)) == ["placeholder_upstream"]
