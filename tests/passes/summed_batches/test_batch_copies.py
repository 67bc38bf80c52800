"""Copies of a batch's part: each reads its own batch, and all of them are summed or joined."""

from __future__ import annotations

from typing import List, Sequence

from graph_opt.graph.edits import Edits
from graph_opt.graph.view import TensorRef, Use
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.summed_batches.batch_copies import BatchCopies
from graph_opt.passes.summed_batches.batch_part import batch_part
from graph_opt.passes.summed_batches.gradients import Gradient
from tests.passes.drawings import Change, lines, view_of

BEGIN = """
    iterator = OneShotIterator()
    batch = IteratorGetNext(iterator) output_types=[float32] output_shapes=[(2, 3)]
    w = VariableV2() dtype=float32 shape=(3, 3)
    read = Identity(w) T=float32
"""


def copied(
    text: str, gradient: Gradient, number: int = 2, show: Sequence[str] = (), waits: str = ""
) -> List[str]:
    """What becomes of a step that takes this gradient."""
    view = view_of(BEGIN + text)
    part = batch_part(view, [gradient.tensor.node])
    pulled = [{TensorRef("batch", 0): "pull_{}".format(place)} for place in range(1, number)]
    writer = NodeWriter(view, "S", "")
    copies = BatchCopies(view, part, number, pulled, writer)
    copies.write()
    edits = Edits(view)
    copies.sum(gradient, edits)
    if waits:
        copies.wait([waits], edits)
    return Change.by(view, edits.rewrite(writer.nodes)).drawn({"S/": ""}, show)


def summed(node: str, *uses: Use) -> Gradient:
    return Gradient(TensorRef(node, 0), False, uses)


DENSE = """
    gradient = MatMul(batch, read) T=float32
    apply = ApplyGradientDescent(w, read, gradient) T=float32
"""
APPLY = Use("apply", 2)


def test_each_copy_reads_its_batch_and_all_add_up() -> None:
    assert copied(DENSE, summed("gradient", APPLY), 3) == lines("""
        - apply = ApplyGradientDescent(w, read, gradient)
        + apply = ApplyGradientDescent(w, read, sum/gradient/0/2)
        + 1/gradient = MatMul(pull_1, read)
        + 2/gradient = MatMul(pull_2, read)
        + sum/gradient/0/1 = AddV2(gradient, 1/gradient)
        + sum/gradient/0/2 = AddV2(sum/gradient/0/1, 2/gradient)
    """)


def test_slices_are_joined_along_rows() -> None:
    gradient = Gradient(TensorRef("gradient", 0), True, (APPLY,))
    assert copied(DENSE, gradient)[2:] == lines("""
        + 1/gradient = MatMul(pull_1, read)
        + joined/gradient/0/axis = Const()
        + joined/gradient/0 = ConcatV2(gradient, 1/gradient, joined/gradient/0/axis)
    """)


def test_a_static_number_of_slices_is_hidden() -> None:
    static = DENSE.replace("read) T=float32\n    apply", "read) T=float32 "
                           "_output_shapes=[(2, 3)]\n    apply")  # fmt: skip
    gradient = Gradient(TensorRef("gradient", 0), True, (APPLY,))
    drawn = copied(static, gradient, show=["shape", "_output_shapes"])
    assert drawn[1] == "+ apply = ApplyGradientDescent(w, read, joined/gradient/0/any_length)"
    assert drawn[-2:] == lines("""
        + joined/gradient/0 = ConcatV2(gradient, 1/gradient, joined/gradient/0/axis) \
          _output_shapes=[(None, 3)]
        + joined/gradient/0/any_length = PlaceholderWithDefault(joined/gradient/0) \
          shape=(None, 3) _output_shapes=[(None, 3)]
    """)


def test_copies_keep_devices_and_colocation_among_themselves() -> None:
    drawn = copied(
        """
        hidden = Tanh(batch) on /device:CPU:1 T=float32
        gradient = Tanh(hidden) on /device:CPU:1 T=float32 _class=["loc:@hidden", "loc:@w"]
        apply = ApplyGradientDescent(w, read, gradient) T=float32
        """,
        summed("gradient", APPLY),
        show=["_class"],
    )
    assert "+ 1/gradient = Tanh(1/hidden) on /device:CPU:1 _class=['loc:@1/hidden', 'loc:@w']" in (
        line.replace("loc:@S/", "loc:@") for line in drawn
    )
    assert drawn[-1] == "+ sum/gradient/0/1 = AddV2(gradient, 1/gradient) on /device:CPU:1"


def test_seeded_draws_differ_from_batch_to_batch() -> None:
    drawn = copied(
        """
        shape = Const() dtype=int32
        seeded = RandomUniform(shape) dtype=float32 seed=3 seed2=5
        free = RandomUniform(shape) dtype=float32 seed=0 seed2=0
        some = AddN(batch, seeded, free) T=float32 N=3
        gradient = Tanh(some) T=float32
        apply = ApplyGradientDescent(w, read, gradient) T=float32
        """,
        summed("gradient", APPLY),
        3,
        ["seed", "seed2"],
    )
    draws = [line for line in drawn if "RandomUniform" in line]
    assert sorted(draws) == lines("""
        + 1/free = RandomUniform(shape) seed=0 seed2=0
        + 1/seeded = RandomUniform(shape) seed=3 seed2=6
        + 2/free = RandomUniform(shape) seed=0 seed2=0
        + 2/seeded = RandomUniform(shape) seed=3 seed2=7
    """)


def test_loops_get_frames_of_their_own() -> None:
    drawn = copied(
        """
        zero = Const() dtype=float32
        enter = Enter(batch) T=float32 frame_name="loop"
        begin = Merge(enter, next) T=float32 N=2
        again = LoopCond(zero)
        switch = Switch(begin, again) T=float32
        next = NextIteration(switch:1) T=float32
        gradient = Exit(switch) T=float32
        apply = ApplyGradientDescent(w, read, gradient) T=float32
        """,
        summed("gradient", APPLY),
        show=["frame_name"],
    )
    assert "+ 1/enter = Enter(pull_1) frame_name='loop/1'" in drawn
    assert "+ 1/begin = Merge(1/enter, 1/next)" in drawn


def test_control_edges_are_those_of_the_copy() -> None:
    drawn = copied(
        """
        check = Tanh(batch) T=float32
        gradient = MatMul(batch, read, ^check, ^batch, ^w) T=float32
        apply = ApplyGradientDescent(w, read, gradient) T=float32
        """,
        summed("gradient", APPLY),
    )
    assert "+ 1/gradient = MatMul(pull_1, read, ^1/check, ^pull_1, ^w)" in drawn


def test_what_the_update_waits_for_waits_for_all_batches() -> None:
    drawn = copied(
        DENSE.replace("read, gradient)", "read, gradient, ^decay)") + "decay = NoOp(^gradient)",
        summed("gradient", APPLY),
        waits="apply",
    )
    assert drawn[2:4] == ["- decay = NoOp(^gradient)", "+ decay = NoOp(^gradient, ^1/gradient)"]
