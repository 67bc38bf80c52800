"""What asks servers for the next step's rows, behind the updates of this step."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.prefetch.exact.served_batches import ask_behind_updates
from graph_opt.passes.prefetch.exact.served_rows import ServedLookup
from tests.passes.drawings import Change, lines, view_of
from tests.passes.one_pass import Passed
from tests.passes.prefetch.exact.exact_models import (
    SHORT,
    Lookups,
    apart,
    bags,
    exact,
    single,
)
from tests.session.test_exact_rows import config, sparse

ATTRIBUTES = ("num_updates", "shards", "shard_servers")


def asking(passed: Passed) -> List[str]:
    """What asks, and what keeps the answers of updates, which must wait for it."""
    drawn = passed.drawn(SHORT, *ATTRIBUTES)
    return [line for line in drawn if "/next/" in line]


def kept(passed: Passed) -> Dict[str, List[str]]:
    """What each node waits for that keeps the answers of an update."""
    return {name: list(passed.view.controls(name)) for name in passed.view.of_op("KeepServedRows")}


def test_a_step_asks_behind_its_update_and_keeps_what_is_sent() -> None:
    assert asking(exact(bags(), servers=1)) == lines("""
        + exact_rows/update_0/pack/keep = KeepServedRows(apply_0/rows, update_0/pack:1, \
          ^exact/next/keep) on worker0 shard_servers=[0]
        + exact/next/batch = NextServedBatch(^update_0/pack) on worker0 \
          num_updates=1 shards=['ps0/table'] shard_servers=[0]
        + exact/next/rows_0 = GroupEmbeddingGather(table, exact/next/batch, ^apply_0/rows) on ps0
        + exact/next/keep = KeepServedBatch(exact/next/rows_0, exact/next/batch:1) on worker0
    """)


def test_each_server_is_asked_behind_its_own_update() -> None:
    assert asking(exact(bags("a", shards=2), servers=2)) == lines("""
        + exact_rows/update_0/pack/keep = KeepServedRows(apply_0/rows, apply_1/rows, \
          update_0/pack:2, ^exact/next/keep) on worker0 shard_servers=[0, 1]
        + exact/next/batch = NextServedBatch(^update_0/pack) on worker0 \
          num_updates=1 shards=['ps0/a/part_0', 'ps1/a/part_1'] shard_servers=[0, 1]
        + exact/next/rows_0 = GroupEmbeddingGather(a/part_0, exact/next/batch, ^apply_0/rows) on ps0
        + exact/next/rows_1 = GroupEmbeddingGather(a/part_1, exact/next/batch:1, ^apply_1/rows) \
          on ps1
        + exact/next/keep = KeepServedBatch(exact/next/rows_0, exact/next/rows_1, \
          exact/next/batch:2) on worker0
    """)


def test_tables_with_an_update_each_are_asked_behind_all() -> None:
    def by_two_optimizers(rows: Sequence[Any]) -> Any:
        first, second = tf.trainable_variables()
        return tf.group(
            tf.train.AdagradOptimizer(0.1).minimize(rows[0], var_list=[first]),
            tf.train.GradientDescentOptimizer(0.1).minimize(rows[1], var_list=[second]),
        )

    passed = exact(bags("a"), bags("b"), servers=1, train=by_two_optimizers)
    assert asking(passed)[2:] == lines("""
        + exact/next/batch = NextServedBatch(^update_0/pack, ^update_1/pack) on worker0 \
          num_updates=2 shards=['ps0/a', 'ps0/b'] shard_servers=[0, 0]
        + exact/next/rows_0 = GroupEmbeddingGather(a, b, exact/next/batch, ^apply_0/rows, \
          ^apply_1/rows) on ps0
        + exact/next/keep = KeepServedBatch(exact/next/rows_0, exact/next/batch:1) on worker0
    """)
    keep = "exact_rows/group_embedding/lookup_0/pooled/next/keep"
    assert list(kept(passed).values()) == [[keep], [keep]]


def test_two_lookups_of_a_table_are_asked_for_behind_the_same_update() -> None:
    def again(inputs: Dict[str, Any]) -> List[Any]:
        (variable,) = [each for each in tf.global_variables() if each.op.name == "a"]
        return [tf.nn.embedding_lookup(variable, inputs["one"])]

    passed = exact(bags("a"), again, servers=1)
    assert len(passed.view.of_op("NextServedBatch")) == 2
    (waits,) = kept(passed).values()
    assert waits == passed.view.of_op("KeepServedBatch")


def test_of_tables_that_only_some_steps_update_the_step_itself_asks() -> None:
    passed = exact(bags("a"), bags("b"), servers=1, train=apart)
    assert len(passed.view.of_op("TakeServedRows")) == 1
    assert asking(passed) == []


def frozen(inputs: Dict[str, Any]) -> List[Any]:
    table = tf.get_variable("frozen", [40, 4], trainable=False)
    return [tf.nn.safe_embedding_lookup_sparse(table, sparse(inputs))]


def test_nothing_asks_for_rows_that_nothing_updates() -> None:
    passed = exact(frozen, bags("b"), servers=1)
    (asked,) = passed.view.of_op("NextServedBatch")
    assert [tensor.node for tensor in passed.view.inputs(_gather(passed.view, asked))[:-1]] == ["b"]


def _gather(view: GraphView, asked: str) -> str:
    (gather,) = [name for name in view.readers(asked) if "Gather" in view.op(name)]
    return gather


def test_single_rows_are_never_asked_for_behind_an_update() -> None:
    assert asking(exact(single(), servers=1)) == []


def test_rows_of_the_process_itself_are_not_asked_for() -> None:
    assert asking(exact(bags())) == []


def test_rows_that_may_miss_some_updates_are_not_asked_for() -> None:
    def limited(lookups: Lookups) -> Passed:
        options = config(1, 8, exact=False)
        chosen = options.graph_options.optimizer_options.async_embedding_options
        limit = chosen.staleness_limit.add()
        limit.table, limit.updates = "table", 1
        return exact(lookups, servers=1, options=options)

    assert asking(limited(bags())) == []


# A lookup of two tables on two servers, each with an update, of which a node of the worker keeps
# the answers.
BY_HAND = """
    a = VarHandleOp() on /job:ps/task:0 dtype=float32 shape=(9, 4)
    b = VarHandleOp() on /job:ps/task:1 dtype=float32 shape=(9, 4)
    ids = Const() on /job:worker/task:0 dtype=int64
    prepare = GroupEmbeddingPrepare(ids) on /job:worker/task:0 num_servers=2 shard_servers=[0, 1]
    gather_0 = ResourceGroupEmbeddingGather(a, prepare) on /job:ps/task:0 \
        T=float32 num_shards=1 table_names=['a']
    gather_1 = ResourceGroupEmbeddingGather(b, prepare:1) on /job:ps/task:1 \
        T=float32 num_shards=1 table_names=['b']
    combine = GroupEmbeddingCombine(gather_0, gather_1, prepare:2, prepare:3, ids) \
        on /job:worker/task:0 num_servers=2
    pack = GroupEmbeddingPackGradients(ids) on /job:worker/task:0 num_servers=2
    apply_0 = ResourceGroupEmbeddingApplyPacked(a, pack) on /job:ps/task:0 num_shards=1
    apply_1 = ResourceGroupEmbeddingApplyPacked(b, pack:1) on /job:ps/task:1 num_shards=1
    keep = KeepServedRows(apply_0, apply_1, pack:2) on /job:worker/task:0
    train = NoOp(^apply_0, ^apply_1) on /job:worker/task:0
"""
LOOKUP = ServedLookup("combine", "prepare", ("gather_0", "gather_1"), ("a", "b"))


def asked_by_hand(text: str, bounded: Sequence[str] = ("a", "b")) -> List[str]:
    """What is added to a drawn graph, and what changes in it."""
    view = view_of(text)
    keeps = {name: "keep" for name in view.of_op("ResourceGroupEmbeddingApplyPacked")}
    rewrite = ask_behind_updates(view, [LOOKUP], keeps, "S", bounded)
    return Change.by(view, rewrite).drawn({**SHORT, "S/combine/": ""}, ["num_updates", "shards"])


def test_the_drawn_graph_before_and_after() -> None:
    assert asked_by_hand(BY_HAND) == lines("""
        - keep = KeepServedRows(apply_0, apply_1, pack:2) on worker0
        + keep = KeepServedRows(apply_0, apply_1, pack:2, ^next/keep) on worker0
        + next/batch = NextServedBatch(^pack) on worker0 num_updates=1 shards=['ps0/a', 'ps1/b']
        + next/rows_0 = ResourceGroupEmbeddingGather(a, next/batch, ^apply_0) on ps0
        + next/rows_1 = ResourceGroupEmbeddingGather(b, next/batch:1, ^apply_1) on ps1
        + next/keep = KeepServedBatch(next/rows_0, next/rows_1, next/batch:2) on worker0
    """)


def test_shards_that_nobody_catches_up_have_no_name() -> None:
    batch = asked_by_hand(BY_HAND, ["b"])[2]
    assert batch.endswith("shards=['', 'ps1/b']")


def test_without_an_update_the_graph_stays_as_it_is() -> None:
    trained = ("pack", "apply", "keep", "train")
    kept_lines = [line for line in BY_HAND.splitlines() if not line.strip().startswith(trained)]
    assert asked_by_hand("\n".join(kept_lines)) == []


def test_updates_in_steps_of_their_own_are_not_waited_for_together() -> None:
    steps = BY_HAND.replace("pack:1)", "second)").replace(
        "train = NoOp(^apply_0, ^apply_1)",
        "second = GroupEmbeddingPackGradients(ids) on /job:worker/task:0 num_servers=1\n"
        "one = NoOp(^apply_0) on /job:worker/task:0\ntwo = NoOp(^apply_1)",
    )
    assert asked_by_hand(steps) == []
    together = steps.replace("two = NoOp(^apply_1)", "two = NoOp(^apply_1, ^one)")
    assert "NextServedBatch(^pack, ^second)" in asked_by_hand(together)[2]
