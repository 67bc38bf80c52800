"""Which lookups, gradients and updates become one op, and which stay apart, by names of tables."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence

import pytest

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.refusal import Refusal
from graph_opt.passes.fusion.candidates import CandidateSearch, find_candidates
from graph_opt.passes.fusion.plan import FusionPlan, FusionPlanner, LeftOut
from tests.passes import cyclic_models
from tests.passes import fused_models as models
from tests.passes.fusion.fused_drawings import (
    bag,
    clipped,
    fused,
    loss_of,
    pooled,
    rows_of,
    trained,
)
from tests.passes.one_pass import NAMES, options_of, states

STOCK_UPDATES = models.config(fuse_update=False)
NOTHING = LeftOut()
Adagrad = tf.train.AdagradOptimizer


class Planned(NamedTuple):
    """A plan for the default graph, whose groups are texts: the names of their tables.

    Attributes:
      plan: The plan.
      search: The lookups that it was made for.
    """

    plan: FusionPlan
    search: CandidateSearch

    @property
    def lookups(self) -> List[str]:
        """The lookups of each op."""
        return [_tables(group.members) for group in self.plan.lookups]

    @property
    def gradients(self) -> List[str]:
        """The lookups of each op that sums gradients."""
        return [_tables(group) for group in self.plan.gradients]

    @property
    def updates(self) -> List[str]:
        """The variables of each update."""
        return [" ".join(group.updates) for group in self.plan.updates]

    def refused(self) -> List[str]:
        """The tables of lookups that are not fused, and why."""
        refused = self.plan.outcome.refused
        return [
            "{} {}".format(lookup.tables[0].name, refused[str(lookup.output)].code)
            for lookup in self.search.lookups
            if str(lookup.output) in refused
        ]


def _tables(members: Sequence[Any]) -> str:
    return " ".join(member.candidate.lookup.tables[0].name for member in members)


def planned(config: Any = None, left_out: LeftOut = NOTHING, **known: Any) -> Planned:
    """The plan for the default graph, without the parts that are left out of it."""
    options = options_of(models.config() if config is None else config, **known)
    before, _ = states(
        running_graph_def(add_shapes=True), options, NAMES.index("fuse_group_embedding")
    )
    assert options.group_embedding is not None
    search = find_candidates(before.view, options.group_embedding)
    return Planned(FusionPlanner(before.view, search, options).plan(left_out), search)


def of_device(device: str, name: str) -> Any:
    with tf.device(device):
        return rows_of(name)


def plain(name: str) -> Any:
    """A lookup that is not safe: empty bags have no row."""
    inputs = bag("of_" + name)
    return tf.nn.embedding_lookup_sparse(models.table(name), inputs, None, combiner="sum")


def divided(name: str, strategy: str) -> Any:
    """A lookup of a table in two parts."""
    table = models.table(name, shards=2)
    lookup = tf.nn.safe_embedding_lookup_sparse
    return lookup(table, bag("of_" + name), partition_strategy=strategy)


def another_type(name: str) -> Any:
    table = tf.get_variable(name, [models.VOCABULARY, 4], tf.float16, use_resource=False)
    return tf.cast(pooled(table, "of_" + name), tf.float32)


def test_lookups_of_one_kind_become_one_op_with_one_update() -> None:
    trained(*(rows_of(name) for name in "abc"))
    found = planned()
    assert (found.lookups, found.updates) == (["a b c"], ["a b c"])
    assert found.gradients == [] and found.refused() == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: of_device("/device:GPU:1", "b"), id="on another device"),
        pytest.param(lambda: plain("b"), id="not safe"),
        pytest.param(lambda: rows_of("b", resource=True), id="a resource"),
        pytest.param(lambda: divided("b", "div"), id="in parts"),
    ],
)
def test_a_lookup_of_another_kind_is_an_op_of_its_own(other: Callable[[], Any]) -> None:
    trained(rows_of("a"), other(), rows_of("c"))
    found = planned()
    assert [name[:1] for name in found.lookups] == ["a", "b"] and found.lookups[0] == "a c"
    assert found.updates[0] == "a c" and len(found.updates) == 2


def test_parts_that_are_divided_by_another_rule_are_apart() -> None:
    trained(*(divided(name, strategy) for name, strategy in zip("abc", ("div", "mod", "div"))))
    found = planned()
    assert found.lookups == ["a/part_0 c/part_0", "b/part_0"]
    assert found.updates == ["a/part_0 a/part_1 c/part_0 c/part_1", "b/part_0 b/part_1"]


@pytest.mark.parametrize("on_server, lookups", [(False, ["a b"]), (True, ["a", "b"])])
def test_only_on_servers_do_all_rows_of_an_op_have_one_type(
    on_server: bool, lookups: List[str]
) -> None:
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.device(setter if on_server else None):
        trained(rows_of("a"), another_type("b"))
    server = "/job:ps/task:0/device:CPU:0"
    assert planned(servers_with_ops=frozenset([server])).lookups == lookups


def test_tables_of_several_servers_have_an_op_of_the_worker_in_common() -> None:
    with tf.device(tf.train.replica_device_setter(2, worker_device="/job:worker/task:0")):
        trained(rows_of("a"), rows_of("b"))
    servers = ["/job:ps/task:{}/device:CPU:0".format(number) for number in range(2)]
    found = planned(servers_with_ops=frozenset(servers))
    (group,) = found.plan.lookups
    assert found.lookups == ["a b"] and list(group.kind.tasks_needing_ops) == servers


def test_a_lookup_that_depends_on_another_is_apart_but_not_its_update() -> None:
    first, inputs = rows_of("a"), bag("of_b")
    chosen = tf.argmax(tf.reduce_sum(first, axis=0))
    shifted = tf.SparseTensor(inputs.indices, inputs.values + chosen, inputs.dense_shape)
    trained(first, pooled(models.table("b"), shifted), rows_of("c"))
    found = planned()
    assert (found.lookups, found.updates) == (["a c", "b"], ["a b c"])


@pytest.mark.parametrize("batches, lookups", [(1, ["a b"]), (2, ["a", "b"])])
def test_lookups_of_different_batches_are_apart(batches: int, lookups: List[str]) -> None:
    inputs = [models.batches(seed)["one"] for seed in range(batches)]
    tables = models.table("a"), models.table("b")
    trained(*(tf.nn.embedding_lookup(one, ids) for one, ids in zip(tables, inputs * 2)))
    found = planned()
    assert (found.lookups, found.updates) == (lookups, ["a b"])


def test_lookups_of_what_is_fed_are_together_if_one_step_trains_them() -> None:
    trained(rows_of("a"), rows_of("b"))
    trained(rows_of("c"))
    found = planned()
    assert (found.lookups, found.updates) == (["a b", "c"], ["a b", "c"])


def test_lookups_of_what_is_fed_that_nothing_trains_are_together_if_all_is_fed_for_each() -> None:
    inputs = bag("bag")
    for name in ("a", "b"):
        tf.reduce_sum(pooled(models.table(name), inputs))
    tf.reduce_sum(rows_of("c"))
    assert planned().lookups == ["a b", "c"]


@pytest.mark.parametrize("prefetch, lookups", [(False, ["a b c"]), (True, ["a c", "b"])])
def test_a_lookup_that_cannot_run_ahead_does_not_hold_others_back(
    prefetch: bool, lookups: List[str]
) -> None:
    ids, offset = models.batches()["one"], tf.get_variable("offset", initializer=tf.constant(1))
    of_tables = {"a": ids, "b": ids + tf.cast(offset, tf.int64), "c": ids}
    rows = [tf.nn.embedding_lookup(models.table(name), of) for name, of in of_tables.items()]
    Adagrad(0.1).minimize(loss_of(rows), var_list=tf.trainable_variables()[1:])
    assert planned(models.config(prefetch=prefetch)).lookups == lookups


def test_groups_with_too_few_lookups_are_left() -> None:
    trained(rows_of("a"), rows_of("b", resource=True), rows_of("c"))
    found = planned(models.config(minimum_lookups=2))
    assert (found.lookups, found.updates) == (["a c"], ["a c"])
    assert found.refused() == ["b group_too_small"]


def test_lookups_that_are_not_chosen_are_left_with_their_updates() -> None:
    trained(*(rows_of(name) for name in "abc"))
    found = planned(models.config(lookups=["^[ac]$"]))
    assert (found.lookups, found.updates) == (["a c"], ["a c"])
    assert found.refused() == ["b lookup_not_chosen"]


def updated_by(*optimizers: Any) -> List[Any]:
    """An update of a table each, in one step."""
    loss = loss_of([rows_of(name) for name, _ in zip("abc", optimizers)])
    tables = tf.trainable_variables()
    pairs = list(zip(tf.gradients(loss, tables), tables))
    steps = [one.apply_gradients([pair]) for one, pair in zip(optimizers, pairs)]
    tf.group(*steps, name="step")
    return steps


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: Adagrad(0.2), id="another rate"),
        pytest.param(lambda: Adagrad(0.1, use_locking=True), id="another flag"),
        pytest.param(lambda: tf.train.GradientDescentOptimizer(0.1), id="another optimizer"),
    ],
)
def test_updates_with_other_hyperparameters_are_apart(other: Callable[[], Any]) -> None:
    updated_by(Adagrad(0.1), other(), Adagrad(0.1))
    found = planned()
    assert (found.lookups, found.updates) == (["a b c"], ["a c", "b"])


def test_updates_that_wait_for_each_other_are_apart() -> None:
    loss = loss_of([rows_of("a"), rows_of("b")])
    tables = tf.trainable_variables()
    first, second = zip(tf.gradients(loss, tables), tables)
    with tf.control_dependencies([Adagrad(0.1).apply_gradients([first])]):
        Adagrad(0.1).apply_gradients([second])
    found = planned()
    assert (found.lookups, found.updates) == (["a b"], ["a", "b"])


def test_an_update_that_alone_waits_for_another_is_apart() -> None:
    """What waits for either is the later one itself."""
    loss, optimizer = loss_of([rows_of("a"), rows_of("b")]), Adagrad(0.1)
    tables = tf.trainable_variables()
    optimizer._create_slots(tables)
    optimizer._prepare()
    first, second = (
        optimizer._apply_sparse_duplicate_indices(*pair).op
        for pair in zip(tf.gradients(loss, tables), tables)
    )
    second._add_control_input(first)
    assert planned().updates == ["a", "b"]


def test_updates_that_steps_may_run_without_each_other_are_apart() -> None:
    ids = models.batches()["one"]
    loss = loss_of([tf.nn.embedding_lookup(models.table(name), ids) for name in "ab"])
    for table in tf.trainable_variables():
        Adagrad(0.1).minimize(loss, var_list=[table])
    found = planned()
    assert (found.lookups, found.updates) == (["a b"], ["a", "b"])


def test_lookups_that_are_joined_have_an_op_and_an_update_of_their_own() -> None:
    a, b, c, d = (rows_of(name) for name in "abcd")
    trained(tf.tanh(tf.concat([d, a], 1)), b, c)
    found = planned()
    assert (found.lookups, found.updates) == (["d a", "b c"], ["a d", "b c"])


def test_only_one_group_is_joined_by_a_concatenation() -> None:
    trained(tf.tanh(tf.concat([rows_of("a"), rows_of("b"), plain("c"), plain("d")], 1)))
    found = planned()
    assert found.lookups == ["a b", "c d"]
    assert [group.concatenation is not None for group in found.plan.lookups] == [True, False]


def test_gradients_whose_updates_are_not_fused_are_one_op() -> None:
    trained(rows_of("a"), rows_of("b"))
    found = planned(STOCK_UPDATES)
    assert (found.gradients, found.updates) == (["a b"], [])


def test_gradients_whose_updates_take_them_changed_are_one_op_beside_one_update() -> None:
    clipped(rows_of("a"), rows_of("b"))
    found = planned()
    assert (found.gradients, found.updates) == (["a b"], ["a b"])


def test_gradients_of_lookups_that_are_joined_are_apart() -> None:
    a, b, c = (rows_of(name) for name in "abc")
    trained(tf.tanh(tf.concat([a, b], 1)), c)
    assert planned(STOCK_UPDATES).gradients == ["a b", "c"]


def test_gradients_that_steps_may_need_without_each_other_are_apart() -> None:
    updated_by(Adagrad(0.1), Adagrad(0.1))
    assert planned(STOCK_UPDATES).gradients == ["a b"]
    with tf.Graph().as_default():
        for name in "ab":
            trained(rows_of(name))
        assert planned(STOCK_UPDATES).gradients == ["a", "b"]


def left_out(part: str) -> Planned:
    """A plan for three tables from which a part of the second one is left out."""
    clipped(*(rows_of(name) for name in "abc"))
    name = planned().search.candidates[1].name
    refusal = Refusal("fusion_makes_a_cycle", at="b", need="none", saw="one")
    return planned(left_out=LeftOut(**{part: {name: refusal}}))


@pytest.mark.parametrize(
    "part, lookups, gradients, updates",
    [
        ("lookups", "a c", "a c", "a b c"),
        ("gradients", "a b c", "a c", "a b c"),
        ("updates", "a b c", "a b c", "a c"),
    ],
)
def test_only_what_is_left_out_is_not_fused(
    part: str, lookups: str, gradients: str, updates: str
) -> None:
    found = left_out(part)
    assert (found.lookups, found.gradients, found.updates) == ([lookups], [gradients], [updates])
    outcome = found.plan.outcome
    kinds = (outcome.refused, outcome.gradient_refused, outcome.update_refused)
    assert [len(kind) for kind in kinds] == [
        int(part == one) for one in ("lookups", "gradients", "updates")
    ]


def test_the_first_reason_to_leave_out_a_part_is_kept() -> None:
    one, other = (Refusal("fusion_makes_a_cycle", at=at, need="", saw="") for at in ("a", "b"))
    both = LeftOut(lookups={"x": one}).and_also(LeftOut(lookups={"x": other, "y": other}))
    assert both == LeftOut(lookups={"x": one, "y": other})


def test_what_closes_a_cycle_is_left_out_of_ops_that_have_all_the_rest() -> None:
    cyclic_models.build(models.batches()["more"], cyclic_models.CLOSING)
    passed = fused()
    nodes = {node.op: node for node in passed.change.added if node.op != "Const"}
    tables = {
        op: [name[-1] for name in node.input if name.startswith("table_of_")]
        for op, node in nodes.items()
    }
    assert sorted(tables["GroupEmbeddingLookup"]) == ["0", "1", "2", "3", "4"]
    assert tables["GroupEmbeddingApply"] == ["0", "2", "3", "4"]
    refused = [one.name for one in passed.report.fused_lookups if one.refusals]
    assert refused == ["t1"]
