"""What a plan counts, on graphs that are small enough to count by hand."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.cost.assumptions import Assumptions, NumberFor
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import planned_graph
from graph_opt.reporting.cost import CostPlan
from graph_opt.reporting.cost_text import cost_text

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
TABLES = 3


def both() -> Any:
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 1
    options.async_embedding_options.capacity = 2
    options.async_embedding_options.infer_io_stage = True
    return config


def clustered(batch: int = 0) -> Any:
    """Three lookups of tables on a server, in a training step; rows of a batch unknown if 0."""
    with tf.device(tf.train.replica_device_setter(1)):
        rows = {str(place): np.arange(64) % 10 for place in range(TABLES)}
        dataset = tf.data.Dataset.from_tensor_slices(rows).batch(
            batch or 8, drop_remainder=batch > 0
        )
        features = tf.data.make_one_shot_iterator(dataset).get_next()
        looked_up = [
            tf.nn.embedding_lookup(tf.get_variable("table_" + key, [1000, 16]), ids)
            for key, ids in sorted(features.items())
        ]
        loss = tf.reduce_mean(tf.square(tf.concat(looked_up, axis=1)))
        tf.train.AdagradOptimizer(0.1).minimize(loss, name="train")
    return tf.get_default_graph().as_graph_def(add_shapes=True)


def sparse(weighted: bool = False) -> Any:
    ids = tf.sparse_placeholder(tf.int64, [None, None], name="ids")
    weights = tf.sparse_placeholder(tf.float32, [None, None], name="weights") if weighted else None
    table = tf.get_variable("users", [1000, 4])
    tf.reduce_sum(tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="sum"), name="sum")
    return tf.get_default_graph().as_graph_def(add_shapes=True)


def planned(graph_def: Any, batch: int = 0, config: Any = None, **told: List[str]) -> CostPlan:
    numbers: Dict[str, Any] = {
        key: tuple(NumberFor.parse(key, text) for text in texts) for key, texts in told.items()
    }
    given = planned_graph(graph_def, config or both())
    return cost_plan(given, Assumptions(batch=batch or None, **numbers))


def not_known(plan: CostPlan) -> List[Tuple[str, str]]:
    return [(each.name, each.option) for each in plan.unknown]


def test_what_crosses_between_tasks_is_counted_by_tensor_and_task() -> None:
    plan = planned(clustered(), 8)
    ids, rows, learning_rate = 8 * 8, 8 * 16 * 4, 4
    up, down = sorted(plan.before.links, key=lambda link: not link.source.startswith(WORKER))
    assert (down.tensors, down.bytes) == (TABLES, TABLES * rows)
    # Ids go to the server once, for the lookup and for the update.
    assert (up.tensors, up.bytes) == (2 * TABLES + 1, TABLES * (ids + rows) + learning_rate)
    assert plan.before.calls == up.tensors + down.tensors + 2
    assert plan.before.rows == TABLES * 8
    assert plan.before.row_bytes == TABLES * rows
    assert not plan.unknown


def test_a_rewrite_needs_fewer_calls_and_runs_ops_beside_the_step() -> None:
    plan = planned(clustered(), 8)
    assert plan.after is not None
    assert plan.after.tensors < plan.before.tensors
    assert plan.after.ops < plan.before.ops
    assert plan.after.ops_ahead > 0
    assert plan.after.waits < plan.before.waits
    assert plan.after.staged_tensors > 0


def bags_on_a_server() -> Any:
    """Bags of 20 ids."""
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        rows = np.arange(64 * 20).reshape([64, 20]) % 500
        dataset = tf.data.Dataset.from_tensor_slices(rows).batch(8, drop_remainder=True)
        ids = tf.data.make_one_shot_iterator(dataset).get_next()
        places = tf.where(ids >= 0)
        bags = tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))
        table = tf.get_variable("users", [1000, 16])
        pooled = tf.nn.embedding_lookup_sparse(table, bags, None, combiner="sum")
        tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_mean(tf.square(pooled)), name="train")
        return graph.as_graph_def(add_shapes=True)


@pytest.mark.slow
def test_bags_of_exact_rows_travel_as_without_a_prefetch() -> None:
    fused, exact = both(), both()
    fused.graph_options.optimizer_options.do_async_embedding = False
    exact.graph_options.optimizer_options.async_embedding_options.exact = True
    sent = []
    for config in (fused, exact):
        after = planned(bags_on_a_server(), 8, config, ids_per_row=["20"]).after
        assert after is not None
        (up,) = [link for link in after.links if link.source.startswith(WORKER)]
        sent.append((after.rows, up.bytes))
    assert sent == [(8 * 20, sent[0][1])] * 2


def test_memory_is_that_of_tables_slots_and_other_variables() -> None:
    (memory,) = planned(clustered(), 8).memory
    assert memory.device == "/job:ps/task:0"
    assert memory.tables == memory.slots == TABLES * 1000 * 16 * 4
    assert memory.others == 0


def test_a_batch_of_unknown_size_is_named_with_its_option() -> None:
    plan = planned(clustered())
    assert {option for _, option in not_known(plan)} == {"--batch N"}
    assert plan.before.row_bytes == 0
    assert not planned(clustered_anew(8)).unknown


def clustered_anew(batch: int) -> Any:
    with tf.Graph().as_default():
        return clustered(batch)


def test_ids_of_sparse_lookups_are_those_that_are_told() -> None:
    graph_def = sparse()
    assert ("users", "--ids-per-row 'users=N'") in not_known(planned(graph_def, 8))
    plan = planned(graph_def, 8, ids_per_row=["7", "us.rs=5"])
    assert not plan.unknown
    assert plan.before.rows == 8 * 5
    assert plan.before.row_bytes == plan.before.rows * 16


def test_of_ids_that_are_made_unique_each_is_read_once() -> None:
    plan = planned(sparse(weighted=True), 8, ids_per_row=["5"], distinct_share=["us.rs=0.5"])
    assert plan.before.rows == 8 * 5 * 0.5


def test_a_batch_has_no_more_different_ids_than_a_table_has_rows() -> None:
    assert planned(sparse(weighted=True), 8, ids_per_row=["1000"]).before.rows == 1000


def test_without_a_rewrite_there_is_no_other_column() -> None:
    plan = planned(sparse(), 8, tf.ConfigProto(), ids_per_row=["5"])
    assert plan.after is None
    assert "removed" not in cost_text(plan, "graph.pb")


def test_the_text_shows_costs_links_memory_and_what_was_assumed() -> None:
    text = cost_text(planned(clustered(), 8), "graph.pb")
    assert text.startswith("graph.pb: a step ends at train; batches of 8 rows\n")
    for part in (
        "calls between tasks",
        "one after the other",
        "/job:ps/task:0",
        "slots",
        "assumed:",
    ):
        assert part in text


def test_steps_are_those_that_are_fetched() -> None:
    graph_def = clustered(8)
    forward = cost_plan(planned_graph(graph_def, both(), ("Mean:0",)), Assumptions())
    assert forward.ends == ("Mean",)
    assert forward.before.calls < planned(graph_def).before.calls
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"--fetch 'no_such'.*no such node"):
        cost_plan(planned_graph(graph_def, both(), ("no_such",)), Assumptions())


def test_restoring_a_checkpoint_is_no_step() -> None:
    clustered(8)
    tf.train.Saver()
    tf.global_variables_initializer()
    assert planned(tf.get_default_graph().as_graph_def(add_shapes=True)).ends == ("train",)


def test_ops_that_are_not_loaded_are_named_and_the_rest_is_counted() -> None:
    graph_def = clustered(8)
    node = next(node for node in graph_def.node if node.name == "Mean")
    node.op = "NoSuchOp"
    plan = planned(graph_def)
    assert plan.before.rows == TABLES * 8
    assert plan.before.calls > 0


def test_a_cycle_is_one_error() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="a", op="Neg", input=["b"])
    graph_def.node.add(name="b", op="Neg", input=["a"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle"):
        planned(graph_def)


def test_a_graph_without_lookups_and_training_asks_what_a_step_is() -> None:
    tf.constant(1.0, name="one")
    with pytest.raises(tf.errors.InvalidArgumentError, match="say --fetch NODE"):
        planned(tf.get_default_graph().as_graph_def(add_shapes=True))


@pytest.mark.parametrize("text", ["x", "[=3", "-1", "nan", "table=", "table=inf"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"--ids-per-row .*NUMBER"):
        NumberFor.parse("--ids-per-row", text)
