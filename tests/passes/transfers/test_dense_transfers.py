"""Which weights and gradients can travel as one, and why others travel alone."""

from __future__ import annotations

from typing import List, Tuple

import pytest

from graph_opt.passes.transfers.dense_transfers import dense_transfers
from tests.passes.drawings import view_of

BEGIN = """
    a = VarHandleOp() on /job:ps/task:0 dtype=float32 shape=(3, 2)
    b = VarHandleOp() on /job:ps/task:0 dtype=float32 shape=(2,)
    read_a = ReadVariableOp(a) on /job:ps/task:0 dtype=float32 _output_shapes=[(3, 2)]
    read_b = ReadVariableOp(b) on /job:ps/task:0 dtype=float32 _output_shapes=[(2,)]
    rate = Const() on /job:ps/task:0 dtype=float32 _output_shapes=[()]
    layer = Tanh(read_a) on /job:worker/task:0 T=float32 _output_shapes=[(3, 2)]
    bias = Tanh(read_b, ^layer) on /job:worker/task:0 T=float32 _output_shapes=[(2,)]
    update_a = ResourceApplyGradientDescent(a, rate, layer) on /job:ps/task:0 T=float32
    update_b = ResourceApplyGradientDescent(b, rate, bias) on /job:ps/task:0 T=float32
"""
TRAIN = "train = NoOp(^update_a, ^update_b) on /job:ps/task:0\n"


def found(text: str, max_bytes: int = 1 << 10, apart: bool = False) -> List[Tuple[str, str]]:
    """The messages with their tensors, then the codes of what travels alone with the node."""
    result = dense_transfers(view_of(text), frozenset(), max_bytes, apart)
    messages = [
        (each.kind, " ".join(str(part.tensor) for part in each.parts)) for each in result.transfers
    ]
    return messages + [(each.code, each.node) for each in result.refusals]


TOGETHER = [("weights", "read_a:0 read_b:0"), ("gradients", "layer:0 bias:0")]


def test_what_one_step_reads_and_what_it_updates_by() -> None:
    assert found(BEGIN + TRAIN) == TOGETHER


def test_steps_that_train_apart_share_nothing() -> None:
    apart = BEGIN + "one = NoOp(^update_a)\ntwo = NoOp(^update_b)"
    # `bias` waits for `layer`, so the second step reads both weights.
    assert found(apart) == [("weights", "read_a:0 read_b:0")]
    assert found(apart.replace("read_b, ^layer", "read_b")) == []


def test_what_trains_nothing_travels_as_it_is() -> None:
    untrained = "\n".join(line for line in BEGIN.splitlines() if "update" not in line)
    assert found(untrained) == []


def test_one_task_sends_nothing() -> None:
    assert found((BEGIN + TRAIN).replace("/job:ps", "/job:worker")) == []


def test_large_tensors_travel_alone() -> None:
    assert found(BEGIN + TRAIN, max_bytes=8) == [
        ("transfer_too_large", "read_a"),
        ("transfer_too_large", "layer"),
    ]


def test_a_gradient_that_waits_for_an_update_does_not_travel_with_one_before_it() -> None:
    ordered = (BEGIN + TRAIN).replace("Tanh(read_b, ^layer)", "Tanh(read_b, ^update_a)")
    assert ("gradients", "layer:0 bias:0") not in found(ordered)


@pytest.mark.parametrize(
    "before, after, refused",
    [
        ("ReadVariableOp(b)", "ReadVariableOp(b, ^rate)", "transfer_waits"),
        ("shape=(2,)\n", "shape=(None,)\n", "transfer_size_unknown"),
    ],
)
def test_reads_that_cannot_be_moved_together(before: str, after: str, refused: str) -> None:
    assert (refused, "read_b") in found((BEGIN + TRAIN).replace(before, after))


def test_a_weight_that_only_a_branch_reads_stays_there() -> None:
    branch = (
        (BEGIN + TRAIN).replace("ReadVariableOp(b)", "ReadVariableOp(switch:1)")
        + """
        flag = Const() on /job:ps/task:0 dtype=bool
        switch = Switch(b, flag) on /job:ps/task:0 T=resource
    """
    )
    assert ("transfer_in_control_flow", "read_b") in found(branch)


def test_reads_behind_updates_travel_apart_where_updates_move_to_a_stage() -> None:
    late = (
        (BEGIN + TRAIN).replace("NoOp(^update_a, ^update_b)", "NoOp(^average)")
        + """
        again_a = ReadVariableOp(a, ^update_a, ^update_b) on /job:ps/task:0 dtype=float32 \
            _output_shapes=[(3, 2)]
        again_b = ReadVariableOp(b, ^update_a, ^update_b) on /job:ps/task:0 dtype=float32 \
            _output_shapes=[(2,)]
        average = AddN(again_a, again_b) on /job:worker/task:0 N=2 T=float32
    """
    )
    kinds = [text for kind, text in found(late, apart=True) if kind == "weights"]
    assert kinds == ["read_a:0 read_b:0", "again_a:0 again_b:0"]


def test_servers_send_messages_of_their_own() -> None:
    moved = BEGIN + TRAIN
    for name in ("    b = VarHandleOp()", "read_b = ReadVariableOp(b)"):
        moved = moved.replace(name + " on /job:ps/task:0", name + " on /job:ps/task:1")
    assert not [kind for kind, _ in found(moved) if kind == "weights"]
