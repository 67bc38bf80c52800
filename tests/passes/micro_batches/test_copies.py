"""Copies of nodes for the parts of a batch: what each reads, and what stands for them all."""

from __future__ import annotations

from typing import Any, List, Tuple

from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import TensorRef
from graph_opt.passes.micro_batches.classify import Classifier
from graph_opt.passes.micro_batches.copies import Copies
from tests.passes.drawings import Change, lines, view_of

GRAPH = """
    x = Placeholder() dtype=float32 _output_shapes=[(8, 3)]
    w = VariableV2() dtype=float32 shape=(3, 3) _output_shapes=[(3, 3)]
    y = MatMul(x, w) T=float32 _output_shapes=[(8, 3)]
    z = Tanh(y) on /device:CPU:1 T=float32 _output_shapes=[(8, 3)] _class=["loc:@y", "loc:@w"]
    g = MatMul(y, z) T=float32 transpose_a=True _output_shapes=[(3, 3)]
    axes = Const() dtype=int32 _output_shapes=[(1,)]
    check = NoOp(^y)
    late = Tanh(z, ^check) T=float32 _output_shapes=[(8, 3)]
"""
SHORT = {"M/": "", "rows_of/x/0_0": "part"}


def copied(number: int = 2) -> Tuple[Any, Copies]:
    view = view_of(GRAPH)
    return view, Copies(view, Classifier(view, frozenset(), 2), number, "M")


def drawn(view: Any, copies: Copies) -> List[str]:
    copies.finish()
    found = Change.by(view, Rewrite(tuple(copies.writer.nodes))).drawn(SHORT, ["_class"])
    return [line for line in found if "Const" not in line]


def test_sums_add_up_and_a_part_waits_for_the_sum_before_it() -> None:
    view, copies = copied()
    assert copies.joined(TensorRef("g", 0), ends_turn=True) == "M/1/sum_of/g/0"
    assert drawn(view, copies) == lines("""
        + part = SplitV(x, sizes/x/0, part/axis)
        + 0/part = Identity(part)
        + 0/y = MatMul(0/part, w)
        + 0/z = Tanh(0/y) on /device:CPU:1 _class=['loc:@w']
        + 0/g = MatMul(0/y, 0/z)
        + 1/part = Identity(part:1, ^done/0)
        + 1/y = MatMul(1/part, w)
        + 1/z = Tanh(1/y) on /device:CPU:1 _class=['loc:@w']
        + 1/g = MatMul(1/y, 1/z)
        + 1/sum_of/g/0 = AddV2(0/g, 1/g)
        + done/0 = NoOp(^0/g)
    """)
    assert sorted(copies.copied) == ["g", "y", "z"]


def test_rows_are_joined_in_their_order() -> None:
    view, copies = copied(3)
    assert copies.joined(TensorRef("z", 0)) == "M/joined/z/0"
    (line,) = (each for each in drawn(view, copies) if "ConcatV2" in each)
    assert line.startswith("+ joined/z/0 = ConcatV2(0/z, 1/z, 2/z, joined/z/0/axis)")


def test_what_is_asked_for_twice_is_written_once() -> None:
    view, copies = copied()
    first = [copies.joined(TensorRef(name, 0)) for name in ("z", "y", "z")]
    assert first[0] == first[2]
    names = [line.split()[1] for line in drawn(view, copies)]
    assert len(names) == len(set(names))


def test_copies_wait_for_copies() -> None:
    view, copies = copied()
    copies.joined(TensorRef("late", 0))
    found = drawn(view, copies)
    for place in "01":
        assert "+ {0}/late = Tanh({0}/z, ^{0}/check)".format(place) in found
        assert "+ {0}/check = NoOp(^{0}/y)".format(place) in found


def test_what_waited_for_a_node_waits_for_all_its_copies() -> None:
    _, copies = copied(3)
    assert copies.waits("check") == ["M/0/check", "M/1/check", "M/2/check"]


def test_early_tensors_are_read_as_they_are() -> None:
    view, copies = copied()
    assert copies.early(TensorRef("x", 0)) == "x" and copies.joined(TensorRef("w", 0)) == "w"
    assert drawn(view, copies) == ["+ done/0 = NoOp()"]
