"""Which tables are sharded across ranks, and what becomes of a script's graph."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.config.options import Ranks
from graph_opt.passes.shard_tables.sharded_variables import ShardedVariables
from tests.control_flow import control_flow_v2
from tests.passes import models
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.pass_models import sharding
from tests.passes.refused_tables import sent_through_horovod
from tests.passes.shard_tables.replicated_scripts import GATHER, conditionally

SHORT = {
    "shard_tables/exchange_0/": "X/",
    "sharded_tables/table/of/table/": "D/",
    "sharded_tables/table/": "D/",
    "gradients/": "g/",
    "graph_opt_tables_0_": "",
}
FIRST = Ranks(0, 2, "group")


def script(rows: int = models.VOCABULARY) -> Any:
    """A script with one table, trained with the slices of all ranks."""
    table = tf.get_variable("table", [rows, models.WIDTH], use_resource=False)
    return sent_through_horovod(
        tf.nn.embedding_lookup(table, models.features()["other"], name="rows"), table
    )


def sharded(
    graph_def: Any, ranks: Optional[Ranks] = FIRST, change: Callable[[Any], None] = lambda _: None
) -> Passed:
    """The pass with options that `change` changes."""
    made = sharding()
    change(made.graph_options.optimizer_options.shard_tables_options)
    return ran_pass("shard_tables", made, graph_def, ranks=ranks)


def refused(passed: Passed) -> List[str]:
    """The codes of tables that stay whole."""
    return [each.refusal["code"] for each in passed.report.tables if each.refusal is not None]


def test_rows_are_exchanged_and_updates_take_the_sums_of_all_ranks() -> None:
    drawn = sharded(script()).drawn(SHORT, "shape", "message")
    slots = [line for line in drawn if "Adagrad/" in line and "update_table" not in line]
    assert slots and [line for line in drawn if line not in slots and "Const()" not in line][
        :10
    ] == lines("""
        - table = VariableV2() shape=(30, 4)
        + table = VariableV2() shape=(15, 4)
        - table/Assign = Assign(table, table/Initializer/random_uniform)
        + table/Assign = Assign(table, D/Assign/rows)
        - Square = Square(rows/Identity)
        + Square = Square(X/pooled)
        - g/Square_grad/Mul = Mul(rows/Identity, g/Square_grad/Const)
        + g/Square_grad/Mul = Mul(X/pooled, g/Square_grad/Const)
        - truediv = RealDiv(HorovodAllgather_values, truediv/y)
        + truediv = RealDiv(X/gradients:1, truediv/y)
    """)
    assert "+ Adagrad/update_table/Unique = Unique(X/gradients)" in drawn


def test_an_exchange_sends_ids_rows_and_gradients() -> None:
    drawn = sharded(script()).drawn(SHORT, "message")
    wanted = ("ids", "gather", "rows", "pooled", "rows_gradients", "gradients")
    starts = tuple("+ X/{} =".format(name) for name in wanted)
    assert [line for line in drawn if line.startswith(starts)] == lines("""
        + X/ids = ExchangeAllToAll(X/ready, X/ready:1) message='ids'
        + X/gather = ExchangeGather(table, X/ids, X/ids:1)
        + X/rows = ExchangeAllToAll(X/gather, X/gather:1) message='rows'
        + X/pooled = ExchangeCombine(X/rows, X/rows:1, X/prepare:2, X/prepare:3, \
          IteratorGetNext:3, shard_tables/nothing_0/empty, shard_tables/nothing_0/empty)
        + X/rows_gradients = ExchangeAllToAll(X/row_gradients, X/rows:1) message='rows_gradients'
        + X/gradients = ExchangeGatherGrad(X/ids, X/ids:1, X/rows_gradients, X/table_rows)
    """)


def test_a_rank_starts_with_its_own_rows_of_the_initial_values() -> None:
    drawn = sharded(script()).drawn(SHORT)
    own = ("+ D/keys =", "+ D/Assign/rows")
    assert [line for line in drawn if line.startswith(own)] == lines("""
        + D/keys = PlaceholderWithDefault(D/keys/range)
        + D/Assign/rows = GatherV2(table/Initializer/random_uniform, D/keys, D/Assign/axis)
    """)


@pytest.mark.parametrize("rank, rows", [(0, 16), (1, 15)])
def test_an_odd_number_of_rows(rank: int, rows: int) -> None:
    passed = sharded(script(31), Ranks(rank, 2, "group"))
    (told,) = passed.report.tables
    assert told.bytes_here == 2 * 4 * 4 * rows and told.bytes == 2 * 4 * 4 * 31
    assert told.rule == "row i on rank i % 2"
    shape = passed.view.nodes["table"].attr["shape"].shape
    assert [size.size for size in shape.dim] == [rows, 4]


@pytest.mark.parametrize("group", ["", "group"])
def test_messages_are_those_of_horovods_ranks_or_of_a_group(group: str) -> None:
    view = sharded(script(), Ranks(1, 2, group)).view
    sent = [view.nodes[name].attr for name in view.of_op("ExchangeAllToAll")]
    assert {(one["group"].s.decode(), one["rank"].i, one["size"].i) for one in sent} == {
        (group, 1, 2)
    }
    assert sorted(one["message"].s.decode().rpartition("_0_")[2] for one in sent) == [
        *("ids", "rows", "rows_gradients")
    ]


@pytest.mark.parametrize(
    "ranks, reason",
    [
        (None, "the process is not one of several ranks"),
        (Ranks(0, 1), "there is one rank"),
        (Ranks(0, 2, elastic=True), "Horovod is elastic"),
    ],
)
def test_without_other_ranks_the_graph_stays(ranks: Optional[Ranks], reason: str) -> None:
    passed = sharded(script(), ranks)
    assert passed.drawn() == [] and passed.name_map.part(ShardedVariables) is None
    assert reason in passed.report.left_alone[0]


def test_small_tables_stay_whole() -> None:
    passed = sharded(script(), change=lambda options: setattr(options, "min_table_bytes", 961))
    assert passed.drawn() == [] and passed.report.tables == ()
    with tf.Graph().as_default():
        passed = sharded(script(), change=lambda options: setattr(options, "min_table_bytes", 960))
        assert [each.bytes for each in passed.report.tables] == [960]


def test_a_named_table_is_divided_whatever_its_size() -> None:
    def by_name(options: Any) -> None:
        options.min_table_bytes = 1 << 20
        options.tables.extend(["table:0", "tabel"])

    passed = sharded(script(), change=by_name)
    assert [each.name for each in passed.report.tables] == ["table"]
    (warning,) = passed.report.warnings
    assert "has 'tabel', but no lookup reads" in warning


def test_a_budget_that_nothing_exceeds_divides_nothing() -> None:
    def within(options: Any) -> None:
        options.ClearField("min_table_bytes")
        options.memory_budget_bytes = 960

    assert sharded(script(), change=within).drawn() == []


def test_a_budget_has_values_drawn_row_by_row_and_says_what_exceeds_it() -> None:
    def small(options: Any) -> None:
        options.ClearField("min_table_bytes")
        options.memory_budget_bytes = 470

    passed = sharded(script(), change=small)
    assert [each.bytes_here for each in passed.report.tables] == [480]
    assert any("drawn row by row" in line for line in passed.report.changes)
    assert any("take 480 bytes" in line for line in passed.report.warnings)


def test_what_else_reads_a_table_keeps_it_whole() -> None:
    table = models.table()
    tf.norm(table, name="norm")
    rows = tf.nn.embedding_lookup(table, models.features()["other"])
    passed = sharded(sent_through_horovod(rows, table))
    assert passed.drawn() == [] and refused(passed) == ["table_read_whole"]
    (told,) = passed.report.tables
    assert told.refusal is not None and told.refusal["node"].startswith("norm")


def test_gradients_of_this_rank_alone_keep_a_table_whole() -> None:
    rows = tf.nn.embedding_lookup(models.table(), models.features()["other"])
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
    passed = sharded(None)
    assert passed.drawn() == [] and refused(passed) == ["gradient_not_gathered"]


def test_one_table_that_stays_whole_does_not_hold_back_another() -> None:
    inputs = models.features()
    tf.nn.embedding_lookup(models.table("frozen"), inputs["other"])
    table = models.table()
    rows = tf.nn.embedding_lookup(table, inputs["other"])
    passed = sharded(sent_through_horovod(rows, table))
    assert [each.name for each in passed.report.tables if each.rule] == ["table"]
    assert refused(passed) == ["table_not_trained"]


def test_savers_and_fetches_are_told_the_sharded_variables() -> None:
    found = sharded(script()).name_map.part(ShardedVariables)
    assert found is not None
    assert [each.name for each in found.variables] == ["table", "table/Adagrad"]
    assert found.values["table:0"] == "table"
    assert found.assigned["table/Assign:0"] == "table/Initializer/random_uniform:0"


def test_nothing_happens_without_the_option() -> None:
    assert ran_pass("shard_tables", None, script(), ranks=FIRST).is_idle


def test_collectives_are_taken_out_of_branches_that_are_always_taken() -> None:
    table = models.table()
    rows = tf.nn.embedding_lookup(table, models.features()["other"])
    slices = tf.gradients(tf.reduce_sum(tf.square(rows)), table)[0]
    with control_flow_v2(False):
        sent = conditionally(slices, 2)
        tf.train.AdagradOptimizer(0.1).apply_gradients([(sent, table)])
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    for node in graph_def.node:
        if node.op == "Identity" and GATHER in node.name.rpartition("/")[2]:
            node.op = GATHER
    passed = sharded(graph_def)
    assert [each.name for each in passed.report.tables if each.rule] == ["table"]
    assert GATHER not in {
        passed.view.op(name) for name in passed.view.ancestors(["Adagrad/update_table/Unique"])
    }
