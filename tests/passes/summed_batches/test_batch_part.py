"""Which nodes are computed anew for each batch of a step."""

from __future__ import annotations

from typing import Tuple

import pytest

from graph_opt.graph.refusal import Refusal
from graph_opt.passes.summed_batches.batch_part import BatchPart, batch_part
from tests.passes.drawings import view_of

BEGIN = """
    iterator = OneShotIterator()
    batch = IteratorGetNext(iterator) output_types=[float32] output_shapes=[(2, 3)]
    w = VariableV2() dtype=float32 shape=(3, 3)
    read = Identity(w) T=float32
"""


def part_of(text: str, *ends: str) -> BatchPart:
    return batch_part(view_of(BEGIN + text), ends or ("end",))


def refusal_of(text: str) -> Tuple[str, str]:
    with pytest.raises(Refusal) as refused:
        part_of(text)
    return refused.value.code, refused.value.node


def test_all_between_the_source_and_the_gradients() -> None:
    part = part_of("""
        product = MatMul(batch, read) T=float32
        end = Tanh(product) T=float32
        metric = Tanh(product) T=float32
    """)
    assert part.sources == ("batch",)
    assert part.nodes == ("product", "end")
    assert part.needed == {"end", "product", "batch", "read", "w"}


def test_control_edges_count() -> None:
    part = part_of("""
        one = Const(^batch) dtype=float32
        end = MatMul(one, read) T=float32
    """)
    assert part.nodes == ("one", "end")


def test_each_batch_draws_its_own_numbers() -> None:
    part = part_of("""
        shape = Const() dtype=int32
        noise = RandomUniform(shape) dtype=float32 T=int32
        end = AddV2(batch, noise) T=float32
    """)
    assert part.nodes == ("noise", "end")


def test_shapes_that_gradients_are_recognised_by_are_copied_too() -> None:
    part = part_of("""
        shape = Const() dtype=int32
        longer = Cast(shape) SrcT=int32 DstT=int64
        end = Reshape(batch, longer) T=float32 Tshape=int64
    """)
    assert part.nodes == ("longer", "end")


def test_an_array_of_the_step_is_one_of_each_batch() -> None:
    part = part_of("""
        size = Const() dtype=int32
        array = TensorArrayV3(size) dtype=float32
        written = TensorArrayWriteV3(array, size, batch, array:1) T=float32
        end = TensorArrayReadV3(array, size, written) dtype=float32
    """)
    assert part.nodes == ("array", "written", "end")


def test_a_loop_is_copied_whole() -> None:
    part = part_of("""
        zero = Const() dtype=float32
        count = Const() dtype=bool
        enter = Enter(zero) T=float32 frame_name="loop"
        within = Enter(batch) T=float32 frame_name="loop" is_constant=True
        begin = Merge(enter, next) T=float32 N=2
        turns = Enter(count) T=bool frame_name="loop" is_constant=True
        again = LoopCond(turns)
        switch = Switch(begin, again) T=float32
        added = AddV2(switch:1, within) T=float32
        next = NextIteration(added) T=float32
        end = Exit(switch) T=float32
    """)
    inside = {"enter", "within", "turns", "begin", "again", "switch", "added", "next", "end"}
    assert set(part.nodes) == inside
    order = list(part.nodes)
    assert order.index("begin") < order.index("switch") < order.index("added")


def test_two_sources_are_both_pulled() -> None:
    part = part_of("""
        other = IteratorGetNext(iterator) output_types=[float32] output_shapes=[(2, 3)]
        end = AddV2(batch, other) T=float32
    """)
    assert set(part.sources) == {"batch", "other"}


def test_what_changes_state_and_is_only_waited_for_runs_once() -> None:
    part = part_of("""
        seen = AssignAdd(w, batch) T=float32
        end = Identity(batch, ^seen) T=float32
    """)
    assert part.nodes == ("end",)


@pytest.mark.parametrize(
    "text, refused",
    [
        ("end = Identity(read) T=float32", ("no_source_to_pull", "end")),
        (
            "fed = Placeholder() dtype=float32\nend = MatMul(fed, read) T=float32",
            ("no_source_to_pull", "fed"),
        ),
        (
            "seen = AssignAdd(w, batch) T=float32\nend = AddV2(seen, batch) T=float32",
            ("step_not_repeatable", "seen"),
        ),
        (
            "sum = CollectiveReduce(batch) T=float32\nend = AddV2(sum, batch) T=float32",
            ("step_not_repeatable", "sum"),
        ),
    ],
)
def test_steps_that_cannot_be_repeated(text: str, refused: Tuple[str, str]) -> None:
    assert refusal_of(text) == refused


def test_a_source_in_a_loop_cannot_be_pulled_ahead() -> None:
    assert refusal_of("""
        enter = Enter(iterator) T=resource frame_name="loop"
        pulled = IteratorGetNext(enter) output_types=[float32] output_shapes=[(2, 3)]
        end = Exit(pulled) T=float32
    """) == ("no_source_to_pull", "pulled")
