"""Which nodes end training steps, and which nodes those steps run."""

from __future__ import annotations

from typing import Dict, List

import pytest

from graph_opt.graph.view import GraphView
from graph_opt.passes.transfers.training_ends import (
    is_initializer,
    is_update,
    training_ends,
    updates_rows,
)
from tests.passes.drawings import view_of

BEGIN = """
    w = VarHandleOp() dtype=float32 shape=(3,)
    rate = Const() dtype=float32
    gradient = Const() dtype=float32
    update = ResourceApplyGradientDescent(w, rate, gradient) T=float32
"""


def ends(text: str) -> Dict[str, List[str]]:
    """For each node that a training step runs, the ends of those steps."""
    view = view_of(BEGIN + text)
    masks = training_ends(view)
    own = {mask: name for name, mask in masks.items() if not _behind(view, masks, name)}
    return {
        name: sorted(end for bit, end in own.items() if mask & bit) for name, mask in masks.items()
    }


def _behind(view: GraphView, masks: Dict[str, int], name: str) -> bool:
    return any(each in masks for each in view.successors(name))


def test_a_train_op_ends_the_step() -> None:
    found = ends("train = NoOp(^update)\napart = Tanh(rate) T=float32")
    assert found == {name: ["train"] for name in ("w", "rate", "gradient", "update", "train")}


def test_an_update_that_nothing_waits_for_is_an_end_itself() -> None:
    assert ends("")["gradient"] == ["update"]


def test_steps_that_train_apart_have_ends_of_their_own() -> None:
    found = ends("""
        v = VarHandleOp() dtype=float32 shape=(3,)
        other = ResourceApplyGradientDescent(v, rate, gradient) T=float32
        one = NoOp(^update)
        two = NoOp(^other)
    """)
    assert (found["update"], found["other"]) == (["one"], ["two"])
    assert found["gradient"] == found["rate"] == ["one", "two"]


def test_the_value_that_an_update_returns_is_no_step_of_its_own() -> None:
    found = ends("""
        value = ReadVariableOp(w, ^update) dtype=float32
        train = NoOp(^update)
    """)
    assert "value" not in found and found["update"] == ["train"]


def test_the_value_is_the_end_where_nothing_else_is() -> None:
    assert ends("value = ReadVariableOp(w, ^update) dtype=float32")["update"] == ["value"]


def test_what_keeps_answers_of_servers_is_run_by_sessions() -> None:
    found = ends("""
        packed = ResourceGroupEmbeddingApplyPacked(w, gradient) num_shards=1
        keep = KeepServedRows(packed)
        asked = NextServedBatch(^gradient)
        rows = ResourceGroupEmbeddingGather(w, asked, ^packed) T=float32
        batch = KeepServedBatch(rows)
        train = NoOp(^packed, ^update)
    """)
    assert found["packed"] == ["train"]
    assert not {"keep", "batch", "rows"} & set(found)


@pytest.mark.parametrize(
    "node, update, of_rows",
    [
        ("x = ResourceApplyAdam(w)", True, False),
        ("x = SparseApplyAdagrad(w)", True, True),
        ("x = ResourceScatterAdd(w)", True, True),
        ("x = AssignAddVariableOp(w, rate)", True, False),
        ("x = AccumulatorApplyGradient(w)", True, False),
        ("x = GroupEmbeddingApply(w)", True, True),
        ("x = DynamicTableApply(w)", True, True),
        ("x = AssignVariableOp(w, rate)", True, False),
        ("x = ReadVariableOp(w)", False, False),
        ("x = ScatterNd(w)", False, False),
        ("x = StridedSliceAssign(w, rate)", True, True),
        ("w/Assign = AssignVariableOp(w, rate)", False, False),
    ],
)
def test_what_changes_variables(node: str, update: bool, of_rows: bool) -> None:
    view = view_of(BEGIN + node)
    name = node.split()[0]
    assert (is_update(view, name), updates_rows(view, name)) == (update, of_rows)
    assert is_initializer(view, name) == name.endswith("/Assign")
