"""The ops of tables on one device: one looks up, one updates, whatever the tables are."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.optimizers.adam_async import AdamAsyncOptimizer
from tests.control_flow import control_flow_v2
from tests.optimizer_models import STOCK
from tests.passes import fused_models as models
from tests.passes.drawings import lines
from tests.passes.fusion import dynamic_models
from tests.passes.fusion.fused_drawings import (
    added,
    bag,
    changed,
    clipped,
    fused,
    loss_of,
    pooled,
    rows_of,
    trained,
)
from tests.passes.one_pass import Passed

DEFERRED = models.config(adam="deferred")
STOCK_UPDATES = models.config(fuse_update=False)


def twice() -> None:
    """Two lookups of one table."""
    table = models.table("one")
    trained(pooled(table, "a"), pooled(table, "b"))


def joined(*others: Any) -> None:
    """Two lookups that a ConcatV2 joins, perhaps with something else."""
    trained(tf.tanh(tf.concat([rows_of("one"), rows_of("two", 6), *others], 1)))


def adagrad_of(*rows: Any) -> Tuple[Any, List[Any]]:
    """Its gradients, and the slots that an update in a tf.cond needs beforehand."""
    optimizer = STOCK["adagrad"]()
    pairs = optimizer.compute_gradients(loss_of(rows))
    optimizer._create_slots([variable for _, variable in pairs])
    optimizer._prepare()
    return optimizer, pairs


def refusals(passed: Passed) -> List[List[str]]:
    """The codes of each lookup."""
    return [[each["code"] for each in one.refusals] for one in passed.report.fused_lookups]


def test_one_op_looks_up_and_one_updates() -> None:
    trained(rows_of("one"))
    passed = fused()
    assert added(passed) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one, of_one/ids, of_one/places, of_one/shape)
        update_0/apply = GroupEmbeddingApply(one, one/Adagrad, update_0/h0, update_0/h1, \
          of_one/ids, of_one/places, of_one/shape, g0)
    """)
    assert changed(passed, "sum_0", "Adagrad") == lines("""
        - sum_0 = Sum(embedding_lookup/Reshape_2, Const)
        + sum_0 = Sum(lookup_0/pooled, Const)
        - Adagrad = NoOp(^Adagrad/update_one/SparseApplyAdagrad)
        + Adagrad = NoOp(^update_0/apply)
    """)


def test_ops_say_how_rows_are_combined() -> None:
    tables, inputs = [models.table(name) for name in ("one", "two")], bag("bag")
    lookup = tf.nn.safe_embedding_lookup_sparse
    trained(lookup(tables[0], inputs, combiner="sqrtn"), lookup(tables[1], inputs, default_id=3))
    shown = ("combiners", "layouts", "safe", "default_ids", "filled_ids")
    assert [line.partition(") ")[2] for line in added(fused(), show=shown)] == lines("""
        combiners=['sqrtn', 'mean'] layouts=['sparse', 'sparse'] safe=True default_ids=[-1, 3]
        combiners=['sqrtn', 'mean'] layouts=['sparse', 'sparse'] safe=True default_ids=[-1, 3] \
          filled_ids=[0, -1]
    """)


@pytest.mark.parametrize(
    "resource, wanted",
    [
        (False, ["GroupEmbeddingLookup", "GroupEmbeddingApply"]),
        (True, ["ResourceGroupEmbeddingLookup", "ResourceGroupEmbeddingApply"]),
    ],
)
def test_only_ops_that_take_references_must_be_where_these_are(
    resource: bool, wanted: List[str]
) -> None:
    trained(rows_of("one", resource=resource), rows_of("two", resource=resource))
    new = {node.op: list(node.attr["_class"].list.s) for node in fused().change.added}
    of_tables = [] if resource else [b"loc:@one", b"loc:@two"]
    assert {op: new[op] for op in new if op != "Const"} == dict.fromkeys(wanted, of_tables)


def test_two_tables_are_looked_up_and_updated_together() -> None:
    trained(rows_of("one"), rows_of("two", 6))
    passed = fused()
    assert added(passed, show=("lookup_tables",)) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one, two, of_one/ids, of_two/ids, of_one/places, \
          of_two/places, of_one/shape, of_two/shape) lookup_tables=[0, 1]
        update_0/apply = GroupEmbeddingApply(one, two, one/Adagrad, two/Adagrad, update_0/h0, \
          update_0/h1, of_one/ids, of_two/ids, of_one/places, of_two/places, of_one/shape, \
          of_two/shape, g0, g1) lookup_tables=[0, 1]
    """)
    assert changed(passed, "sum_1")[1] == "+ sum_1 = Sum(lookup_0/pooled:1, Const_1)"


def test_the_slots_of_all_tables_come_one_kind_after_the_other() -> None:
    trained(rows_of("one"), rows_of("two"), optimizer="ftrl")
    (update,) = added(fused(), "update_")
    slots = "one/Ftrl, two/Ftrl, one/Ftrl_1, two/Ftrl_1"
    assert update.startswith("update_0/apply = GroupEmbeddingApply(one, two, {}, ".format(slots))


def test_the_parts_of_a_table_are_shards_of_one() -> None:
    trained(rows_of("one", shards=2))
    shown = ("table_names", "num_shards", "table_shards")
    assert added(fused(), show=shown) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one/part_0, one/part_1, of_one/ids, of_one/places, \
          of_one/shape) table_names=['one'] num_shards=2 table_shards=[2]
        update_0/apply = GroupEmbeddingApply(one/part_0, one/part_1, one/part_0/Adagrad, \
          one/part_1/Adagrad, update_0/h0, update_0/h1, of_one/ids, of_one/places, of_one/shape, \
          g0) table_names=['one'] num_shards=2 table_shards=[2]
    """)


def test_a_table_that_two_lookups_read_is_there_once() -> None:
    twice()
    assert added(fused(), show=("lookup_tables",)) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one, a/ids, b/ids, a/places, b/places, a/shape, \
          b/shape) lookup_tables=[0, 0]
        update_0/apply = GroupEmbeddingApply(one, one/Adagrad, update_0/h0, update_0/h1, a/ids, \
          b/ids, a/places, b/places, a/shape, b/shape, g0, g1) lookup_tables=[0, 0]
    """)


def test_joined_results_are_columns_of_one_tensor_with_one_gradient() -> None:
    joined()
    passed = fused()
    shown = ("columns", "columns_width")
    assert added(passed, "lookup", "update", "gradient", show=shown) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one, two, of_one/ids, of_two/ids, of_one/places, \
          of_two/places, of_one/shape, of_two/shape) columns=[0, 4] columns_width=10
        update_0/apply = GroupEmbeddingApply(one, two, one/Adagrad, two/Adagrad, update_0/h0, \
          update_0/h1, of_one/ids, of_two/ids, of_one/places, of_two/places, of_one/shape, \
          of_two/shape, g/Tanh_grad/TanhGrad) columns=[0, 4] columns_width=10
    """)
    assert changed(passed, "Tanh") == ["- Tanh = Tanh(concat)", "+ Tanh = Tanh(lookup_0/pooled)"]


def test_what_else_is_joined_stays_joined_behind_the_columns() -> None:
    joined(tf.zeros([4, 3]))
    passed = fused()
    assert added(passed, "result_0/concat", "gradient") == lines("""
        result_0/concat = ConcatV2(lookup_0/pooled, zeros, result_0/concat/axis)
        gradient_columns_0/columns_9 = Slice(g/Tanh_grad/TanhGrad, gradient_columns_0/begin_9, \
          gradient_columns_0/size_9)
    """)
    (update,) = added(passed, "update")
    assert update.endswith("gradient_columns_0/columns_9)")


@pytest.mark.parametrize("width", [3, None])
def test_ids_in_a_matrix_are_looked_up_in_a_row(width: Optional[int]) -> None:
    """The result gets its shape back, which a constant tells if all but the batch is static."""
    ids = tf.placeholder(tf.int64, [None, width], "ids")
    trained(tf.nn.embedding_lookup(models.table("one"), ids))
    passed = fused()
    shape = """
        result_0/ids_shape_4 = Shape(ids)
        result_0/shape_4 = ConcatV2(result_0/ids_shape_4, result_0/row_shape_4, \
          result_0/shape_4/axis)
    """
    assert added(passed) == lines(
        """
        reshape_0/flat = Reshape(ids, reshape_0/shape)
        lookup_0/pooled = GroupEmbeddingLookup(one, reshape_0/flat, none, none)
        {}
        result_0/restored_4 = Reshape(lookup_0/pooled, result_0/shape_4)
        reshape_1/flat = Reshape(g0, reshape_1/shape)
        update_0/apply = GroupEmbeddingApply(one, one/Adagrad, update_0/h0, update_0/h1, \
          reshape_0/flat, none, none, reshape_1/flat)
    """.format("" if width else shape.strip())
    )
    assert changed(passed, "sum_0")[1] == "+ sum_0 = Sum(result_0/restored_4, Const)"


def test_an_update_that_is_not_fused_reads_the_slices_of_each_lookup() -> None:
    twice()
    passed = fused(STOCK_UPDATES)
    assert added(passed, "gradient", "update", show=("lookup_tables",)) == lines("""
        gradient_0/rows = GroupEmbeddingGrad(a/ids, b/ids, a/places, b/places, a/shape, b/shape, \
          gradient_0/table_rows, g0, g1) lookup_tables=[0, 1]
    """)
    assert [line for line in changed(passed, "g/concat") if line[0] == "+"] == lines("""
        + g/concat = ConcatV2(gradient_0/rows:2, gradient_0/rows:3, g/concat/axis)
        + g/concat_1 = ConcatV2(gradient_0/rows, gradient_0/rows:1, g/concat_1/axis)
    """)
    assert changed(passed, "Adagrad") == []


def test_slices_that_were_changed_are_updated_like_a_lookup_of_their_indices() -> None:
    clipped(rows_of("one"))
    passed = fused()
    assert added(passed, "gradient", "update") == lines("""
        update_0/apply = GroupEmbeddingApply(one, one/Adagrad, update_0/h0, update_0/h1, \
          gradient_0/rows, none, none, clipped)
        gradient_0/rows = GroupEmbeddingGrad(of_one/ids, of_one/places, of_one/shape, \
          gradient_0/table_rows, g0)
    """)
    assert changed(passed, "clipped")[1] == "+ clipped = Minimum(gradient_0/rows:1, clipped/y)"


def test_a_gradient_as_large_as_the_table_is_left_to_tensorflow_and_made_of_our_slices() -> None:
    optimizer = STOCK["adagrad"]()
    ((gradient, table),) = optimizer.compute_gradients(loss_of([rows_of("one")]))
    optimizer.apply_gradients([(tf.convert_to_tensor(gradient, name="dense") + 1.0, table)])
    passed = fused()
    assert changed(passed, "dense", "Adagrad")[1:] == [
        "+ dense = UnsortedSegmentSum(gradient_0/rows:1, gradient_0/rows, strided_slice)"
    ]
    assert added(passed, "update") == [] and refusals(passed) == [["update_is_dense"]]


def test_a_deferred_table_is_caught_up_before_it_is_looked_up() -> None:
    trained(rows_of("one"), optimizer="adam")
    shown = ("optimizer", "row_states", "weights_only")
    assert added(fused(DEFERRED), "lookup", "catch_up_0", "update", show=shown) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one, of_one/ids, of_one/places, of_one/shape, \
          ^catch_up_0/rows)
        catch_up_0/rows = GroupEmbeddingCatchUp(one, one/Adam, one/Adam_1, of_one/ids, \
          of_one/places, of_one/shape) optimizer='Adam' row_states=['one'] weights_only=True
        update_0/apply = GroupEmbeddingApply(one, one/Adam, one/Adam_1, update_0/h0, \
          update_0/h1, update_0/h2, update_0/h3, beta1_power/read, beta2_power/read, of_one/ids, \
          of_one/places, of_one/shape, g0) optimizer='Adam' row_states=['one']
    """)


def test_only_tables_whose_rows_may_be_behind_are_caught_up() -> None:
    losses = [tf.reduce_sum(rows_of(name)) for name in ("late", "now")]
    late, now = tf.trainable_variables()
    STOCK["adam"]().minimize(losses[0], var_list=[late])
    STOCK["adagrad"]().minimize(losses[1], var_list=[now])
    (catch_up,) = added(fused(DEFERRED), "catch_up_0")
    assert catch_up == (
        "catch_up_0/rows = GroupEmbeddingCatchUp(late, late/Adam, late/Adam_1, "
        "of_late/ids, of_late/places, of_late/shape)"
    )


def test_tables_with_an_average_and_those_without_are_caught_up_by_an_op_each() -> None:
    step = trained(rows_of("one"), rows_of("averaged"), optimizer="adam")
    with tf.control_dependencies([step]):
        tf.train.ExponentialMovingAverage(0.9).apply(tf.trainable_variables()[1:])
    passed = fused(DEFERRED)
    caught_up = [node for node in passed.change.added if node.op == "GroupEmbeddingCatchUp"]
    assert [(node.input[0], node.attr["averaged"].b) for node in caught_up] == [
        ("one", False),
        ("averaged", True),
    ]
    (lookup,) = added(passed, "lookup_0")
    assert lookup.endswith("^catch_up_0/rows, ^catch_up_1/rows)")


def test_the_update_of_a_dynamic_table_takes_the_rows_that_its_lookup_found() -> None:
    trained(pooled(dynamic_models.table("keys"), "bag"), rows_of("one", resource=True))
    assert added(fused()) == lines("""
        rows_0/of_keys = GroupDynamicRows(keys, bag/ids, rows_0/insert)
        lookup_0/pooled = ResourceGroupEmbeddingLookup(keys, one, rows_0/of_keys, of_one/ids, \
          bag/places, of_one/places, bag/shape, of_one/shape)
        update_0/apply = ResourceGroupEmbeddingApply(keys, one, keys/Adagrad, one/Adagrad, \
          update_0/h0, update_0/h1, rows_0/of_keys, of_one/ids, bag/places, of_one/places, \
          bag/shape, of_one/shape, g0, g1)
    """)


def test_slices_of_a_dynamic_table_make_no_rows() -> None:
    clipped(pooled(dynamic_models.table("keys"), "bag"))
    passed = fused()
    assert added(passed, "rows", "update") == lines("""
        rows_0/of_keys = GroupDynamicRows(keys, bag/ids, rows_0/insert)
        rows_1/of_keys = GroupDynamicRows(keys, gradient_0/keys_0, rows_1/insert, ^clipped)
        update_0/apply = ResourceGroupEmbeddingApply(keys, keys/Adagrad, update_0/h0, \
          update_0/h1, rows_1/of_keys, none, none, clipped)
    """)
    inserts = ["group_embedding/rows_{}/insert".format(number) for number in range(2)]
    nodes = {node.name: node for node in passed.change.added}
    values = [tf.make_ndarray(nodes[name].attr["value"].tensor).item() for name in inserts]
    assert values == [True, False]


def test_an_update_in_a_branch_takes_the_slices_that_the_branch_has() -> None:
    optimizer, pairs = adagrad_of(rows_of("one", resource=True))
    good = tf.placeholder(tf.bool, [], "good")
    with control_flow_v2(False):
        tf.cond(good, lambda: optimizer.apply_gradients(pairs), tf.no_op)
    passed = fused()
    in_branch = "cond/Adagrad/update_one/"
    assert [line.replace(in_branch, "B/") for line in added(passed, "update")] == lines("""
        update_0/apply = ResourceGroupEmbeddingApply(one, \
          B/ResourceSparseApplyAdagrad/Switch_1:1, update_0/h0, update_0/h1, \
          B/Unique/Switch:1, none, none, B/UnsortedSegmentSum/Switch:1)
    """)
    edits = [line.replace(in_branch, "B/") for line in changed(passed, "cond/")]
    assert [line for line in edits if line[0] == "+"] == lines("""
        + B/Unique/Switch = Switch(gradient_0/rows, cond/pred_id)
        + B/UnsortedSegmentSum/Switch = Switch(gradient_0/rows:1, cond/pred_id)
        + cond/Adagrad = NoOp(^update_0/apply)
    """)


def test_an_update_in_a_function_reads_our_slices() -> None:
    optimizer, pairs = adagrad_of(rows_of("one", resource=True))
    good = tf.placeholder(tf.bool, [], "good")
    with control_flow_v2(True):
        tf.cond(good, lambda: optimizer.apply_gradients(pairs), tf.no_op)
    passed = fused()
    assert changed(passed, "cond")[1] == (
        "+ cond = If(good, one, gradient_0/rows, gradient_0/rows:1, one/Adagrad, good)"
    )
    assert added(passed, "update") == [] and refusals(passed) == [["optimizer_unknown"]]


def test_the_update_waits_for_what_the_optimizers_did_and_who_waited_waits_for_it() -> None:
    optimizer, pairs = adagrad_of(rows_of("one"))
    with tf.control_dependencies([tf.no_op(name="before")]):
        optimizer.apply_gradients(pairs, name="step")
    passed = fused()
    (update,) = added(passed, "update")
    assert update.endswith(", g0, ^before)")
    assert changed(passed, "step =") == lines("""
        - step = NoOp(^before, ^step/update_one/SparseApplyAdagrad)
        + step = NoOp(^before, ^update_0/apply)
    """)


@pytest.mark.parametrize("device, own", [("CPU", [[4, 5]]), ("GPU", [[], []])])
def test_only_a_cpu_updates_tables_with_powers_of_their_own_by_one_op(
    device: str, own: List[List[int]]
) -> None:
    with tf.device("/device:{}:0".format(device)):
        AdamAsyncOptimizer(0.1).minimize(loss_of([rows_of("one"), rows_of("two")]))
    made = [node for node in fused().change.added if node.op == "GroupEmbeddingApply"]
    assert [list(node.attr["own_hyperparameters"].list.i) for node in made] == own


def on_a_server() -> None:
    with tf.device("/job:ps/task:0"):
        trained(rows_of("one"))


def test_a_server_that_looks_up_its_own_tables_does_so_by_one_op() -> None:
    on_a_server()
    passed = fused(servers_with_ops=frozenset(["/job:ps/task:0/device:CPU:0"]))
    assert added(passed) == lines("""
        lookup_0/pooled = GroupEmbeddingLookup(one, of_one/ids, of_one/places, of_one/shape) on ps0
        update_0/apply = GroupEmbeddingApply(one, one/Adagrad, update_0/h0, update_0/h1, \
          of_one/ids, of_one/places, of_one/shape, g0) on ps0
    """)


def test_a_server_that_is_not_known_to_have_our_ops_is_left_alone() -> None:
    on_a_server()
    passed = fused()
    assert passed.drawn() == [] and {code for (code, *_) in refusals(passed)} == {
        "server_without_ops"
    }


def test_shards_on_several_devices_have_no_op_in_common() -> None:
    def device(operation: Any) -> str:
        for part in range(2):
            if operation.name.startswith("one/part_{}".format(part)):
                return "/device:GPU:{}".format(part)
        return ""

    with tf.device(device):
        trained(rows_of("one", shards=2))
    passed = fused()
    assert added(passed, "lookup") == []
    assert refusals(passed)[0][0] == "tables_on_several_devices"
