"""Which task runs each node, and what crosses between two of them."""

from __future__ import annotations

from typing import Dict, List

from graph_opt.passes.transfers.task_borders import TaskBorders
from tests.passes.drawings import view_of

WORKER, PS = "/job:worker/task:0/device:CPU:0", "/job:ps/task:0/device:CPU:0"
GRAPH = """
    w = VarHandleOp() on /job:ps/task:0 dtype=float32 shape=(3,)
    read = ReadVariableOp(w) on /job:worker/task:0 dtype=float32
    x = Tanh(read) on /job:worker/task:0 T=float32
    y = AddV2(x, read) on /job:worker/task:0 T=float32
    apply = ResourceApplyGradientDescent(w, y, x) on /job:worker/task:0 T=float32
"""


def crossing(borders: TaskBorders, *skipped: str) -> Dict[str, List[str]]:
    return {
        "{} to {}".format(tensor, task.split("/")[1]): sorted(use.consumer for use in uses)
        for (tensor, task), uses in borders.crossings(frozenset(skipped)).items()
    }


def test_what_takes_a_handle_runs_where_the_variable_is() -> None:
    borders = TaskBorders(view_of(GRAPH))
    assert borders.several
    assert [borders.of[name] for name in ("read", "apply", "x")] == [PS, PS, WORKER]


def test_each_tensor_crosses_once_to_a_task() -> None:
    borders = TaskBorders(view_of(GRAPH))
    assert crossing(borders) == {
        "read:0 to job:worker": ["x", "y"],
        "x:0 to job:ps": ["apply"],
        "y:0 to job:ps": ["apply"],
    }


def test_levels_count_borders() -> None:
    levels = TaskBorders(view_of(GRAPH)).level
    assert [levels[name] for name in ("w", "read", "x", "y", "apply")] == [0, 0, 1, 1, 2]


def test_control_edges_between_tasks_are_borders_too() -> None:
    borders = TaskBorders(view_of(GRAPH + "behind = NoOp(^apply) on /job:worker/task:0"))
    assert borders.level["behind"] == 3


def test_nodes_that_are_skipped_send_and_receive_nothing() -> None:
    borders = TaskBorders(view_of(GRAPH))
    assert crossing(borders, "y", "read") == {"x:0 to job:ps": ["apply"]}


def test_a_gpu_and_an_unknown_task_are_none() -> None:
    borders = TaskBorders(
        view_of("""
            a = NoOp() on /job:worker/task:0
            b = Const(^a) on /job:worker/task:0/device:GPU:0 dtype=float32
            c = Tanh(b) on /job:worker T=float32
            d = Tanh(c) on /job:ps/task:0 T=float32
        """)
    )
    assert [borders.of[name] for name in "abcd"] == [WORKER, None, None, PS]
    assert crossing(borders) == {}


def test_one_task_has_no_borders() -> None:
    borders = TaskBorders(view_of(GRAPH.replace("/job:ps", "/job:worker")))
    assert not borders.several and borders.level == {}


def test_a_switch_passes_a_handle_on() -> None:
    borders = TaskBorders(
        view_of("""
            w = VarHandleOp() on /job:ps/task:0 dtype=float32 shape=(3,)
            flag = Const() on /job:worker/task:0 dtype=bool
            switch = Switch(w, flag) on /job:worker/task:0 T=resource
            read = ReadVariableOp(switch:1) on /job:worker/task:0 dtype=float32
        """)
    )
    assert borders.of["read"] == PS
