"""Which batch each node depends on."""

from __future__ import annotations

from typing import Dict, Tuple

from graph_opt.passes.io_stages import batch_flow, sources_of
from tests.passes.drawings import view_of

TWO_SOURCES = """
    iterator = OneShotIterator()
    a = IteratorGetNext(iterator) output_types=[float32] output_shapes=[(2, 3)]
    b = IteratorGetNext(iterator) output_types=[float32] output_shapes=[(2, 3)]
"""


def reached(
    text: str, choices: Tuple[str, ...] = (), absorbed: Tuple[str, ...] = ()
) -> Dict[str, Tuple[str, ...]]:
    flow = batch_flow(view_of(text), choices, frozenset(absorbed))
    return {name: tuple(sources_of(flow, mask)) for name, mask in flow.masks.items()}


def test_data_and_control_edges_are_followed() -> None:
    assert reached(
        TWO_SOURCES
        + """
        data = Tanh(a) T=float32
        waits = NoOp(^b)
        both = Tanh(data, ^waits) T=float32
        apart = OneShotIterator()
    """
    ) == {"a": ("a",), "b": ("b",), "data": ("a",), "waits": ("b",), "both": ("a", "b")}


def test_what_a_loop_reads_comes_out_of_it() -> None:
    found = reached(
        TWO_SOURCES
        + """
        zero = Const() dtype=float32
        enter = Enter(zero) T=float32 frame_name="loop"
        within = Enter(a) T=float32 frame_name="loop" is_constant=True
        begin = Merge(enter, next) T=float32 N=2
        flag = Const() dtype=bool
        again = LoopCond(flag)
        switch = Switch(begin, again) T=float32
        added = AddV2(switch:1, within) T=float32
        next = NextIteration(added) T=float32
        exit = Exit(switch) T=float32
        behind = AddV2(exit, b) T=float32
    """
    )
    assert found["exit"] == ("a",) and found["behind"] == ("a", "b")
    assert "enter" not in found and "again" not in found


def test_the_buffer_of_a_stage_begins_anew() -> None:
    found = reached(
        TWO_SOURCES
        + """
        put = TensorBufferPut(a) dtypes=[float32] shared_name="stage"
        take = TensorBufferTake(^put) dtypes=[float32] shapes=[(2, 3)] shared_name="stage"
        read = Tanh(take) T=float32
    """
    )
    assert found["take"] == found["read"] == ("take",)


def test_a_choice_takes_the_place_of_what_it_chooses_from() -> None:
    text = (
        TWO_SOURCES
        + """
        flag = Placeholder() dtype=bool
        chosen = Merge(a, b) T=float32 N=2
        read = Tanh(chosen) T=float32
    """
    )
    found = reached(text, choices=("chosen",), absorbed=("a", "b"))
    assert found == {"chosen": ("chosen",), "read": ("chosen",)}
