"""Who writes a table, found from every way in which a graph passes its reference or handle on."""

from __future__ import annotations

from typing import List

import pytest

from graph_opt.passes.prefetch.exact.exact_tables import (
    ROW_LOG,
    table_writes,
    tell_followers,
    worker,
)
from tests.passes.drawings import Change, lines, view_of

REFERENCE = """
    table = VariableV2() dtype=float32 shape=(9, 4)
    ids = Const() dtype=int64
    rows = Const() dtype=float32
    flag = Const() dtype=bool
    read = Identity(table) T=float32
"""
HANDLE = """
    table = VarHandleOp() dtype=float32 shape=(9, 4)
    ids = Const() dtype=int64
    rows = Const() dtype=float32
    flag = Const() dtype=bool
"""


@pytest.mark.parametrize(
    "graph, node, kind",
    [
        (REFERENCE, "w = Assign(table, rows) T=float32", "assigns"),
        (HANDLE, "w = AssignVariableOp(table, rows) dtype=float32", "assigns"),
        (REFERENCE, "w = GroupEmbeddingApply(table, ids) num_shards=1", "updates"),
        (HANDLE, "w = ResourceGroupEmbeddingApply(table, ids) num_shards=1", "updates"),
        (HANDLE, "w = ResourceGroupEmbeddingApplyPacked(table, ids) num_shards=1", "packed"),
        (REFERENCE, "w = ScatterAdd(table, ids, rows) T=float32 Tindices=int64", "others"),
        (REFERENCE, "w = SparseApplyAdagrad(table, table, rows, rows, ids) T=float32", "others"),
        (HANDLE, "w = ResourceScatterAdd(table, ids, rows) dtype=float32", "others"),
        (HANDLE, "w = AssignAddVariableOp(table, rows) dtype=float32", "others"),
    ],
)
def test_each_kind_of_writer(graph: str, node: str, kind: str) -> None:
    writes = table_writes(view_of(graph + node), "table")
    found = {key for key, value in writes._asdict().items() if value}
    assert found == {kind}


@pytest.mark.parametrize(
    "graph, node",
    [
        (REFERENCE, "r = GatherV2(read, ids, ids) Tparams=float32 Tindices=int64 Taxis=int64"),
        (REFERENCE, "r = GroupEmbeddingLookup(table, ids) num_shards=1"),
        (REFERENCE, "r = IsVariableInitialized(table) dtype=float32"),
        (REFERENCE, "r = SaveV2(rows, rows, rows, read)"),
        (HANDLE, "r = ResourceGather(table, ids) dtype=float32 Tindices=int64"),
        (HANDLE, "r = ReadVariableOp(table) dtype=float32"),
        (HANDLE, "r = VarIsInitializedOp(table)"),
        (HANDLE, "r = ResourceGroupEmbeddingCatchUp(table, ids) num_shards=1"),
    ],
)
def test_reads_write_nothing(graph: str, node: str) -> None:
    assert not any(table_writes(view_of(graph + node), "table"))


@pytest.mark.parametrize(
    "through, source",
    [
        ("p = RefIdentity(table) T=float32", "p"),
        ("p = RefSwitch(table, flag) T=float32", "p:1"),
        ("q = RefIdentity(table) T=float32\np = RefSwitch(q, flag) T=float32", "p"),
    ],
)
def test_a_reference_is_followed_to_its_writer(through: str, source: str) -> None:
    write = "w = ScatterAdd({}, ids, rows) T=float32 Tindices=int64".format(source)
    writes = table_writes(view_of("\n".join([REFERENCE, through, write])), "table")
    assert [use.consumer for use in writes.others] == ["w"]


@pytest.mark.parametrize("through", ["p = Identity(table) T=resource", "p = Switch(table, flag)"])
def test_a_handle_is_followed_to_its_writer(through: str) -> None:
    if "Switch" in through:
        through += " T=resource"
    write = "w = ResourceScatterAdd(p, ids, rows) dtype=float32 Tindices=int64"
    writes = table_writes(view_of("\n".join([HANDLE, through, write])), "table")
    assert [use.consumer for use in writes.others] == ["w"]


def test_a_table_that_is_the_slot_of_another_update_is_not_its_table() -> None:
    graph = HANDLE + "other = VarHandleOp() dtype=float32 shape=(9, 4)"
    node = "\nw = ResourceGroupEmbeddingApply(other, table, ids) num_shards=1"
    assert [use.slot for use in table_writes(view_of(graph + node), "table").others] == [1]


WRITERS = (
    HANDLE
    + """
    start = AssignVariableOp(table, rows, ^ids) dtype=float32
    add = ResourceScatterAdd(table, ids, rows) dtype=float32 Tindices=int64
    update = ResourceGroupEmbeddingApply(table, ids) num_shards=1
    other = VarHandleOp() dtype=float32 shape=(9, 4)
    unrelated = AssignVariableOp(other, rows) dtype=float32
"""
)


def logged(only: List[str]) -> List[str]:
    view = view_of(WRITERS)
    return Change.by(
        view, tell_followers(view, {"table": ROW_LOG}, frozenset(only) or None)[0]
    ).drawn({})


def test_what_sets_or_scatters_waits_for_the_log_and_updates_do_not() -> None:
    assert logged([]) == lines("""
        - start = AssignVariableOp(table, rows, ^ids)
        + start = AssignVariableOp(table, rows, ^ids, ^exact_rows_writers/table/all)
        - add = ResourceScatterAdd(table, ids, rows)
        + add = ResourceScatterAdd(table, ids, rows, ^exact_rows_writers/table/all)
        + exact_rows_writers/table/all = RowLogAll()
    """)


def test_only_new_nodes_are_changed_when_a_graph_grows() -> None:
    assert [line for line in logged(["add"]) if line.startswith("- ")] == [
        "- add = ResourceScatterAdd(table, ids, rows)"
    ]
    assert logged(["update"]) == []


def test_the_worker_is_told_behind_each_writer() -> None:
    view = view_of(WRITERS)
    rewrite, side_targets = tell_followers(view, {"table": worker("/job:worker/task:0")})
    assert Change.by(view, rewrite).drawn({}) == lines("""
        + exact_rows_writers/start/lose = LoseServedRows(^start) on /job:worker/task:0
        + exact_rows_writers/add/lose = LoseServedRows(^add) on /job:worker/task:0
    """)
    lose = "exact_rows_writers/{}/lose"
    assert side_targets == {each: lose.format(each) for each in ("start", "add")}


def test_names_that_are_taken_are_avoided() -> None:
    view = view_of(WRITERS + "exact_rows_writers = NoOp()")
    rewrite, _ = tell_followers(view, {"table": ROW_LOG})
    assert [node.name for node in rewrite.nodes] == ["exact_rows_writers_1/table/all"]
