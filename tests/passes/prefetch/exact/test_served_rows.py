"""Lookups of tables on servers: what is asked for ahead, what main asks, what updates answer."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.passes.prefetch.exact.exact_tables import worker
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed
from tests.passes.prefetch.exact.exact_models import (
    SHORT,
    Lookups,
    bags,
    exact,
    limited,
    refusals,
    single,
    told,
)
from tests.session.test_exact_rows import config, sparse, table

ATTRIBUTES = ("pool_on_server", "served_shards", "shards", "shard_widths")
BETWEEN = ("exact/lose ", "exact/lost ", "exact/gather_", "exact/replace ")


def drawn(passed: Passed, *starts: str) -> List[str]:
    """The changes of nodes whose names start with one of these; of all but a few if none do."""
    found = passed.drawn(SHORT, *ATTRIBUTES)
    if starts:
        return [line for line in found if line[2:].startswith(starts)]
    own = (*BETWEEN, "exact/counts", "exact/next", "exact_rows_writers", "gradients/", "Sum")
    return [line for line in found if not line[2:].startswith(own)]


def test_single_rows_are_staged_and_updates_answer_with_those_that_wait() -> None:
    assert drawn(exact(single(), servers=1)) == lines("""
        - prepare = GroupEmbeddingPrepare(IteratorGetNext:2, nothing_0/empty, nothing_0/empty) \
          on worker0
        + prepare = GroupEmbeddingPrepare(IteratorGetNext:2, nothing_0/empty, nothing_0/empty) \
          on worker0 pool_on_server='never'
        - gather_0/rows = GroupEmbeddingGather(table, prepare) on ps0
        + gather_0/rows = GroupEmbeddingGather(table, exact/staged) on ps0
        - pooled = GroupEmbeddingCombine(gather_0/rows, prepare:1, prepare:2, IteratorGetNext:2, \
          nothing_0/empty, nothing_0/empty) on worker0
        + pooled = GroupEmbeddingCombine(gather_0/rows, prepare:1, exact/staged:1, \
          IteratorGetNext:2, nothing_0/empty, nothing_0/empty) on worker0
        - update_0/pack = GroupEmbeddingPackGradients(IteratorGetNext:2, nothing_0/empty, \
          nothing_0/empty, gradients/Sum_grad/Tile, prepare) on worker0
        + update_0/pack = GroupEmbeddingPackGradients(IteratorGetNext:2, nothing_0/empty, \
          nothing_0/empty, gradients/Sum_grad/Tile, prepare) on worker0 served_shards=['ps0/table']
        + exact/staged = StageServedRows(prepare, prepare:2) on worker0 shards=['ps0/table']
        + exact/take = TakeServedRows(exact/staged:2) on worker0
        + exact/pooled = GroupEmbeddingRefreshPacked(gather_0/rows, prepare:1, prepare:2, \
          IteratorGetNext:2, nothing_0/empty, nothing_0/empty, pooled, exact/take:2) on worker0
        + exact_rows/update_0/pack/keep = KeepServedRows(apply_0/rows, update_0/pack:1) on worker0 \
          shard_widths=[4]
    """)


def test_main_asks_for_bags_that_were_not_asked_for_ahead() -> None:
    passed = exact(bags(shards=2), servers=2)
    made = ("staged", "take", "ahead", "request", "rows", "sent", "pooled")
    assert drawn(passed, "prepare", *("exact/" + each for each in made)) == lines("""
        - prepare = GroupEmbeddingPrepare(GatherNd, Where, Shape) on worker0
        + prepare = GroupEmbeddingPrepare(GatherNd, Where, Shape) on worker0 \
          pool_on_server='together'
        + exact/staged = StageServedRows(prepare, prepare:1, prepare:3) on worker0 \
          shards=['ps0/table/part_0', 'ps1/table/part_1']
        + exact/take = TakeServedRows(exact/staged:3) on worker0
        + exact/ahead_0 = Switch(gather_0/rows, exact/take:2) on worker0
        + exact/request_0 = Switch(exact/take, exact/take:2) on worker0
        + exact/rows_0 = GroupEmbeddingGather(table/part_0, exact/request_0:1) on ps0
        + exact/sent_0 = Merge(exact/ahead_0, exact/rows_0) on worker0
        + exact/ahead_1 = Switch(gather_1/rows, exact/take:2) on worker0
        + exact/request_1 = Switch(exact/take:1, exact/take:2) on worker0
        + exact/rows_1 = GroupEmbeddingGather(table/part_1, exact/request_1:1) on ps1
        + exact/sent_1 = Merge(exact/ahead_1, exact/rows_1) on worker0
        + exact/pooled = GroupEmbeddingRefreshPacked(exact/sent_0, exact/sent_1, prepare:2, \
          prepare:3, GatherNd, Where, Shape, pooled, exact/take:3) on worker0
    """)


def test_lost_rows_are_read_again_between_steps() -> None:
    passed = exact(bags(shards=2), servers=2)
    assert drawn(passed, *BETWEEN) == lines("""
        + exact/lose = LoseServedRows() on worker0
        + exact/lost = FindLostRows() on worker0 shards=['ps0/table/part_0', 'ps1/table/part_1']
        + exact/gather_0 = GroupEmbeddingGather(table/part_0, exact/lost) on ps0
        + exact/gather_1 = GroupEmbeddingGather(table/part_1, exact/lost:1) on ps1
        + exact/replace = ReplaceLostRows(exact/gather_0, exact/gather_1, exact/lost:2) on worker0 \
          shard_widths=[4, 4]
    """)
    found = told(passed)
    (again,) = found.read_again
    scope = "exact_rows/group_embedding/lookup_0/pooled/"
    names = ("lose", "lost:3", "replace", "pooled")
    assert tuple(again) == tuple(scope + each for each in names)


def test_writers_tell_the_worker_and_steps_keep_answers() -> None:
    passed = exact(single(), servers=1)
    found = told(passed)
    assert found.followers == {"table": worker("/job:worker/task:0")}
    assert found.side_targets == {
        "group_embedding/apply_0/rows": "exact_rows/group_embedding/update_0/pack/keep",
        "table/Assign": "exact_rows_writers/table/Assign/lose",
    }
    assert drawn(passed, "exact_rows_writers") == [
        "+ exact_rows_writers/table/Assign/lose = LoseServedRows(^table/Assign) on worker0"
    ]


def test_single_rows_beside_bags_may_have_to_be_asked_for_by_main_too() -> None:
    def both(inputs: Dict[str, Any]) -> List[Any]:
        rows = table("table", 4)
        return [
            tf.nn.safe_embedding_lookup_sparse(rows, sparse(inputs)),
            tf.nn.embedding_lookup(rows, inputs["one"]),
        ]

    passed = exact(both, servers=1)
    assert len(passed.view.of_op("TakeServedRows")) == len(passed.view.of_op("Merge")) == 2
    modes = [
        passed.view.nodes[name].attr["pool_on_server"].s
        for name in passed.view.of_op("GroupEmbeddingPrepare")
    ]
    assert modes == [b"together", b"together"]


def test_with_limits_servers_do_not_pool_bags() -> None:
    passed = exact(bags("near"), bags("far"), servers=1, options=limited(near=2))
    (staged,) = (line for line in drawn(passed) if "StageServedRows" in line)
    assert staged.endswith("shards=['ps0/near', '']")
    (prepared,) = (line for line in drawn(passed, "+ prepare", "prepare") if line[0] == "+")
    assert prepared.endswith("pool_on_server='never'")
    assert passed.view.of_op("Switch") == []


def test_what_waited_for_the_lookup_waits_for_rows_that_are_refreshed() -> None:
    def waited_for(inputs: Dict[str, Any]) -> List[Any]:
        rows = bags()(inputs)
        with tf.control_dependencies(rows):
            tf.no_op(name="behind")
        return rows

    assert drawn(exact(waited_for, servers=1), "behind") == lines("""
        - behind = NoOp(^pooled) on worker0
        + behind = NoOp(^exact/pooled) on worker0
    """)


def scattered(inputs: Dict[str, Any]) -> List[Any]:
    rows = table("table", 4)
    tf.scatter_update(rows, [0], tf.zeros([1, 4]), name="scatter")
    return [tf.nn.embedding_lookup(rows, inputs["one"])]


def dynamic(inputs: Dict[str, Any]) -> List[Any]:
    keys = graph_opt.get_embedding_variable("keys", 4, initializer=tf.ones_initializer())
    return [tf.nn.embedding_lookup(keys, tf.cast(inputs["one"], tf.int64))]


@pytest.mark.parametrize(
    "lookups, code, node",
    [
        (scattered, "exact_table_written", "scatter"),
        (dynamic, "exact_elsewhere", "keys"),
    ],
)
def test_tables_whose_writes_the_worker_is_not_told(lookups: Lookups, code: str, node: str) -> None:
    passed = exact(lookups, servers=1)
    assert passed.drawn() == []
    assert refusals(passed) == [(code, node)]


def test_an_update_that_tensorflow_computes_tells_nothing() -> None:
    options = config(1, 1)
    options.graph_options.optimizer_options.group_embedding_options.fuse_update = False
    options.graph_options.optimizer_options.group_embedding_options.SetInParent()

    def trained(rows: Sequence[Any]) -> Any:
        return tf.train.AdagradOptimizer(0.1).minimize(tf.add_n(list(rows)))

    passed = exact(bags(), servers=1, train=trained, options=options)
    assert [code for code, _ in refusals(passed)] == ["exact_table_written"]
    assert passed.drawn() == []


def test_adam_that_moves_every_row_tells_nothing() -> None:
    options = config(1, 1)
    options.graph_options.optimizer_options.group_embedding_options.adam = "deferred"

    def adam(rows: Sequence[Any]) -> Any:
        return tf.train.AdamOptimizer().minimize(tf.add_n(list(rows)))

    passed = exact(bags(), servers=1, train=adam, options=options)
    assert refusals(passed) == [("exact_table_written", "group_embedding/gather_0/rows")]
    assert passed.drawn() == []
