"""The ops of tables on servers: what the worker asks for, what servers do, what it sends them."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

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
TASK = "/job:{}/task:{}/device:CPU:0"


def on_servers(
    build: Callable[[], Any], config: Any = None, servers: int = 2, with_ops: Sequence[int] = (0, 1)
) -> Passed:
    """The pass on a model of one worker and some servers.

    Args:
      build: Makes the model.
      config: See `fused`.
      servers: The number of servers, to which TensorFlow gives variables in turn.
      with_ops: Those that are known to have our ops.
    """
    setter = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    with tf.device(setter):
        build()
    known = [TASK.format("ps", server) for server in with_ops] + [TASK.format("worker", 0)]
    return fused(config, servers_with_ops=frozenset(known))


def one() -> None:
    """One table, and so on the first server."""
    trained(rows_of("one"))


def three(optimizer: str = "adagrad") -> None:
    """Three tables: the first and the third one are on the first server."""
    trained(*(rows_of(name) for name in ("one", "two", "three")), optimizer=optimizer)


def codes(passed: Passed) -> List[List[str]]:
    """The refusals of each lookup."""
    return [[each["code"] for each in lookup.refusals] for lookup in passed.report.fused_lookups]


def test_the_worker_asks_and_the_server_gathers_and_updates() -> None:
    passed = on_servers(one)
    assert added(passed) == lines("""
        lookup_0/prepare = GroupEmbeddingPrepare(of_one/ids, of_one/places, of_one/shape) \
          on worker0
        gather_0/rows = GroupEmbeddingGather(one, lookup_0/prepare) on ps0
        lookup_0/pooled = GroupEmbeddingCombine(gather_0/rows, lookup_0/prepare:1, \
          lookup_0/prepare:2, of_one/ids, of_one/places, of_one/shape) on worker0
        update_0/pack = GroupEmbeddingPackGradients(of_one/ids, of_one/places, of_one/shape, g0, \
          lookup_0/prepare) on worker0
        apply_0/rows = GroupEmbeddingApplyPacked(one, one/Adagrad, apply_0/h0, apply_0/h1, \
          update_0/pack) on ps0
    """)
    assert changed(passed, "sum_0", "Adagrad") == lines("""
        - sum_0 = Sum(embedding_lookup/Reshape_2, Const) on worker0
        + sum_0 = Sum(lookup_0/pooled, Const) on worker0
        - Adagrad = NoOp(^Adagrad/update_one/SparseApplyAdagrad) on ps0
        + Adagrad = NoOp(^apply_0/rows) on ps0
    """)


def test_hyperparameters_are_where_the_update_is() -> None:
    new = {node.name: node.device for node in on_servers(one).change.added if node.op == "Const"}
    update = "group_embedding/apply_0/hyperparameter_{}"
    assert new == {update.format(number): "/job:ps/task:0" for number in range(2)}


def test_each_server_is_asked_for_the_rows_of_all_its_tables_at_once() -> None:
    passed = on_servers(three)
    assert added(passed, "gather", "apply") == lines("""
        gather_0/rows = GroupEmbeddingGather(one, three, lookup_0/prepare) on ps0
        gather_1/rows = GroupEmbeddingGather(two, lookup_0/prepare:1) on ps1
        apply_0/rows = GroupEmbeddingApplyPacked(one, three, one/Adagrad, three/Adagrad, \
          apply_0/h0, apply_0/h1, update_0/pack) on ps0
        apply_1/rows = GroupEmbeddingApplyPacked(two, two/Adagrad, apply_1/h0, apply_1/h1, \
          update_0/pack:1) on ps1
    """)
    shown = ("num_servers", "shard_servers", "table_widths")
    told = [line.partition("worker0 ")[2] for line in added(passed, "lookup", show=shown)]
    assert told == ["num_servers=2 shard_servers=[0, 1, 0] table_widths=[4, 4, 4]"] * 2


def test_the_parts_of_a_table_are_on_a_server_each() -> None:
    passed = on_servers(lambda: trained(rows_of("one", shards=2)))
    shown = ("shard_rows", "table_shards", "shard_servers")
    assert added(passed, "lookup_0/prepare", "gather", "update", "apply", show=shown) == lines("""
        lookup_0/prepare = GroupEmbeddingPrepare(of_one/ids, of_one/places, of_one/shape) \
          on worker0 shard_rows=[12, 11] table_shards=[2] shard_servers=[0, 1]
        gather_0/rows = GroupEmbeddingGather(one/part_0, lookup_0/prepare) on ps0
        gather_1/rows = GroupEmbeddingGather(one/part_1, lookup_0/prepare:1) on ps1
        update_0/pack = GroupEmbeddingPackGradients(of_one/ids, of_one/places, of_one/shape, g0, \
          lookup_0/prepare, lookup_0/prepare:1) on worker0 shard_rows=[12, 11] table_shards=[2] \
          shard_servers=[0, 1]
        apply_0/rows = GroupEmbeddingApplyPacked(one/part_0, one/part_0/Adagrad, apply_0/h0, \
          apply_0/h1, update_0/pack) on ps0
        apply_1/rows = GroupEmbeddingApplyPacked(one/part_1, one/part_1/Adagrad, apply_1/h0, \
          apply_1/h1, update_0/pack:1) on ps1
    """)


@pytest.mark.parametrize(
    "resource, kind, of_table", [(False, "", [b"loc:@one"]), (True, "Resource", [])]
)
def test_only_servers_know_whether_tables_are_resources(
    resource: bool, kind: str, of_table: List[bytes]
) -> None:
    passed = on_servers(lambda: trained(rows_of("one", resource=resource)))
    new = {node.op: list(node.attr["_class"].list.s) for node in passed.change.added}
    new.pop("Const")
    assert new == {
        "GroupEmbeddingPrepare": [],
        kind + "GroupEmbeddingGather": of_table,
        "GroupEmbeddingCombine": [],
        "GroupEmbeddingPackGradients": [],
        kind + "GroupEmbeddingApplyPacked": of_table,
    }


def test_a_table_that_two_lookups_read_is_asked_for_once() -> None:
    def twice() -> None:
        table = models.table("one")
        trained(pooled(table, "a"), pooled(table, "b"))

    passed = on_servers(twice)
    starts = ("lookup_0/prepare", "gather", "update")
    assert added(passed, *starts, show=("lookup_tables", "table_widths")) == lines("""
        lookup_0/prepare = GroupEmbeddingPrepare(a/ids, b/ids, a/places, b/places, a/shape, \
          b/shape) on worker0 lookup_tables=[0, 0] table_widths=[4]
        gather_0/rows = GroupEmbeddingGather(one, lookup_0/prepare) on ps0
        update_0/pack = GroupEmbeddingPackGradients(a/ids, b/ids, a/places, b/places, a/shape, \
          b/shape, g0, g1, lookup_0/prepare) on worker0 lookup_tables=[0, 0]
    """)


def between() -> None:
    """A lookup of another table between two of one."""
    table = models.table("one")
    trained(pooled(table, "a"), rows_of("two"), pooled(table, "b"))


def swapped() -> None:
    """A ConcatV2 joins rows in another order than TensorFlow has the tables in."""
    one, two = rows_of("one"), rows_of("two")
    trained(tf.tanh(tf.concat([two, one], 1)))


@pytest.mark.parametrize("build", [between, swapped])
def test_an_update_takes_gradients_in_the_order_in_which_servers_were_asked(
    build: Callable[[], None],
) -> None:
    passed = on_servers(build)
    (prepare,) = added(passed, "lookup_0/prepare")
    (update,) = added(passed, "update")
    bags = prepare.partition("(")[2].partition(")")[0]
    assert update.startswith("update_0/pack = GroupEmbeddingPackGradients({}, ".format(bags))
    assert update.endswith(", lookup_0/prepare, lookup_0/prepare:1) on worker0")


def test_gradients_of_one_table_are_added_in_tensorflows_order_whatever_was_asked() -> None:
    def padded_last() -> None:
        table, inputs = models.table("one"), bag("bag")
        plain = pooled(table, inputs)
        trained(plain, tf.nn.safe_embedding_lookup_sparse(table, inputs, default_id=3))

    (update,) = added(on_servers(padded_last), "update")
    assert update.endswith(", g1, g0) on worker0")


def test_joined_results_are_columns_of_one_tensor_with_one_gradient() -> None:
    def joined() -> None:
        trained(tf.tanh(tf.concat([rows_of("one"), rows_of("two", 6)], 1)))

    passed = on_servers(joined)
    found = added(passed, "lookup", "update", "gradient", show=("columns", "columns_width"))
    told = [line.partition("worker0 ")[2] for line in found]
    assert told == ["columns=[0, 4] columns_width=10"] * 3
    assert ", g/Tanh_grad/TanhGrad, lookup_0/prepare, lookup_0/prepare:1) on" in found[2]
    assert changed(passed, "Tanh")[1] == "+ Tanh = Tanh(lookup_0/pooled) on worker0"


def test_an_update_that_is_not_fused_gets_slices_from_the_worker() -> None:
    passed = on_servers(one, models.config(fuse_update=False))
    assert added(passed, "gradient", "update", "apply") == lines("""
        gradient_0/rows = GroupEmbeddingGrad(of_one/ids, of_one/places, of_one/shape, \
          gradient_0/table_rows, g0) on worker0
    """)


def test_slices_that_were_changed_are_sent_like_a_lookup_of_their_indices() -> None:
    passed = on_servers(lambda: clipped(rows_of("one")))
    assert added(passed, "update", "apply") == lines("""
        update_0/pack = GroupEmbeddingPackGradients(gradient_0/rows, none, none, clipped) \
          on worker0
        apply_0/rows = GroupEmbeddingApplyPacked(one, one/Adagrad, apply_0/h0, apply_0/h1, \
          update_0/pack) on ps0
    """)


def test_an_update_in_a_branch_sends_the_slices_that_the_branch_has() -> None:
    def conditional() -> None:
        optimizer = STOCK["adagrad"]()
        pairs = optimizer.compute_gradients(loss_of([rows_of("one")]))
        good = tf.placeholder(tf.bool, [], "good")
        with control_flow_v2(False):
            tf.cond(good, lambda: optimizer.apply_gradients(pairs), tf.no_op)

    passed = on_servers(conditional)
    found = added(passed, "update", "apply")
    assert [line.replace("cond/Adagrad/update_one/", "B/") for line in found] == lines("""
        update_0/pack = GroupEmbeddingPackGradients(B/Unique/Switch:1, none, none, \
          B/UnsortedSegmentSum/Switch:1) on worker0
        apply_0/rows = GroupEmbeddingApplyPacked(one, B/SparseApplyAdagrad/Switch_1:1, \
          apply_0/h0, apply_0/h1, update_0/pack) on ps0
    """)
    assert changed(passed, "cond/Adagrad =")[1] == "+ cond/Adagrad = NoOp(^apply_0/rows) on ps0"


def test_the_server_waits_for_what_the_optimizers_update_waited_for() -> None:
    def waiting() -> None:
        optimizer = STOCK["adagrad"]()
        pairs = optimizer.compute_gradients(loss_of([rows_of("one")]))
        with tf.control_dependencies([tf.no_op(name="before")]):
            optimizer.apply_gradients(pairs, name="step")

    pack, apply = added(on_servers(waiting), "update", "apply")
    assert "before" not in pack and apply.endswith(", update_0/pack, ^before) on ps0")


def test_a_server_catches_up_rows_before_it_gathers_them() -> None:
    passed = on_servers(lambda: three("adam"), DEFERRED)
    shown = ("row_states", "weights_only")
    assert added(passed, "gather", "catch_up_0", "catch_up_1", "apply_1", show=shown) == lines("""
        gather_0/rows = GroupEmbeddingGather(one, three, lookup_0/prepare, ^catch_up_0/rows) on ps0
        gather_1/rows = GroupEmbeddingGather(two, lookup_0/prepare:1, ^catch_up_1/rows) on ps1
        catch_up_0/rows = GroupEmbeddingCatchUpPacked(one, three, one/Adam, three/Adam, \
          one/Adam_1, three/Adam_1, lookup_0/prepare) on ps0 row_states=['one', 'three'] \
          weights_only=True
        catch_up_1/rows = GroupEmbeddingCatchUpPacked(two, two/Adam, two/Adam_1, \
          lookup_0/prepare:1) on ps1 row_states=['two'] weights_only=True
        apply_1/rows = GroupEmbeddingApplyPacked(two, two/Adam, two/Adam_1, apply_1/h0, \
          apply_1/h1, apply_1/h2, apply_1/h3, beta1_power/read, beta2_power/read, \
          update_0/pack:1) on ps1 row_states=['two']
    """)


def test_shards_whose_rows_are_never_behind_stand_beside_those_that_are_caught_up() -> None:
    def mixed() -> None:
        loss = loss_of([rows_of(name) for name in ("late", "elsewhere", "now")])
        tables = tf.trainable_variables()
        late, elsewhere, now = zip(tf.gradients(loss, tables), tables)
        adam = STOCK["adam"]().apply_gradients([late, elsewhere])
        tf.group(adam, STOCK["adagrad"]().apply_gradients([now]), name="step")

    passed = on_servers(mixed, DEFERRED)
    (catch_up,) = added(passed, "catch_up_0", show=("row_states",))
    assert catch_up == (
        "catch_up_0/rows = GroupEmbeddingCatchUpPacked(late, now, late/Adam, now, "
        "late/Adam_1, now, lookup_0/prepare) on ps0 row_states=['late', '']"
    )


def test_keys_of_a_dynamic_table_travel_and_the_server_finds_their_rows() -> None:
    passed = on_servers(lambda: trained(pooled(dynamic_models.table("keys"), "bag")))
    assert added(passed, show=("shard_rows",)) == lines("""
        lookup_0/prepare = GroupEmbeddingPrepare(bag/ids, bag/places, bag/shape) on worker0 \
          shard_rows=[0]
        gather_0/rows = ResourceGroupEmbeddingGather(keys, lookup_0/prepare) on ps0
        lookup_0/pooled = GroupEmbeddingCombine(gather_0/rows, lookup_0/prepare:1, \
          lookup_0/prepare:2, bag/ids, bag/places, bag/shape) on worker0
        update_0/pack = GroupEmbeddingPackGradients(bag/ids, bag/places, bag/shape, g0, \
          lookup_0/prepare, ^lookup_0/pooled) on worker0 shard_rows=[0]
        apply_0/rows = ResourceGroupEmbeddingApplyPacked(keys, keys/Adagrad, apply_0/h0, \
          apply_0/h1, update_0/pack) on ps0
    """)


def test_the_parts_of_a_dynamic_table_are_asked_by_key() -> None:
    table = dynamic_models.in_parts
    passed = on_servers(lambda: trained(pooled(table("keys", 2, "key"), "bag")))
    found = added(passed, "lookup_0/prepare", "gather", show=("partition_strategies",))
    assert found == lines("""
        lookup_0/prepare = GroupEmbeddingPrepare(bag/ids, bag/places, bag/shape) on worker0 \
          partition_strategies=['key']
        gather_0/rows = ResourceGroupEmbeddingGather(keys/part_0, lookup_0/prepare) on ps0
        gather_1/rows = ResourceGroupEmbeddingGather(keys/part_1, lookup_0/prepare:1) on ps1
    """)


def test_a_server_updates_tables_with_powers_of_their_own_by_one_op() -> None:
    def own_powers() -> None:
        AdamAsyncOptimizer(0.1).minimize(loss_of([rows_of("one"), rows_of("two")]))

    (update,) = added(on_servers(own_powers, servers=1), "apply", show=("own_hyperparameters",))
    powers = "update_one/read, {0}update_two/read, {0}update_one/read_1, {0}update_two/read_1"
    assert powers.format("AdamAsync/") in update
    assert update.endswith(" own_hyperparameters=[4, 5]")


@pytest.mark.parametrize("exact", [False, True])
def test_updates_answer_only_where_rows_that_wait_are_caught_up(exact: bool) -> None:
    config = models.config(prefetch=True)
    config.graph_options.optimizer_options.async_embedding_options.exact = exact
    passed = on_servers(lambda: trained(rows_of("one"), rows_of("two")), config)
    found = added(passed, "update", "apply", show=("num_under_way", "num_answers"))
    assert [line.rpartition(" ")[2] for line in found] == [
        "num_under_way={}".format(int(exact)),
        *["num_answers={}".format(int(exact))] * 2,
    ]


def test_tables_of_servers_that_are_not_known_to_have_our_ops_are_left_alone() -> None:
    passed = on_servers(lambda: trained(rows_of("one"), rows_of("two")), with_ops=[0])
    assert added(passed, "gather", "apply") == lines("""
        gather_0/rows = GroupEmbeddingGather(one, lookup_0/prepare) on ps0
        apply_0/rows = GroupEmbeddingApplyPacked(one, one/Adagrad, apply_0/h0, apply_0/h1, \
          update_0/pack) on ps0
    """)
    assert [set(each) for each in codes(passed)] == [set(), {"server_without_ops"}]


def test_tables_of_the_worker_itself_are_apart_from_those_of_servers() -> None:
    def both() -> None:
        with tf.device("/job:worker/task:0"):
            home = rows_of("home")
        trained(home, rows_of("away"))

    passed = on_servers(both)
    ops = [line.partition("(")[0] for line in added(passed, "lookup", "gather", "update", "apply")]
    assert ops == lines("""
        lookup_0/pooled = GroupEmbeddingLookup
        lookup_1/prepare = GroupEmbeddingPrepare
        gather_0/rows = GroupEmbeddingGather
        lookup_1/pooled = GroupEmbeddingCombine
        update_0/apply = GroupEmbeddingApply
        update_1/pack = GroupEmbeddingPackGradients
        apply_0/rows = GroupEmbeddingApplyPacked
    """)


def test_a_table_of_which_the_worker_has_a_part_is_left_alone() -> None:
    def device(operation: Any) -> str:
        variable = operation.type == "VariableV2" and not operation.name.startswith("one/part_0")
        return "/job:ps/task:0" if variable else "/job:worker/task:0"

    with tf.device(device):
        trained(rows_of("one", shards=2))
    passed = fused(servers_with_ops=frozenset([TASK.format("ps", 0), TASK.format("worker", 0)]))
    assert added(passed, "lookup") == [] and codes(passed)[0][0] == "tables_on_several_devices"
