"""Copies, for main's batch, of what exists in prefetch alone."""

from __future__ import annotations

from typing import List

import pytest

from graph_opt.graph.view import GraphView
from graph_opt.passes.prefetch.batch_copies import NotOfBatch, Regions, batch_copies, copy_name
from tests.passes.drawings import Change, lines, view_of

GRAPH = """
    handle = OneShotIterator()
    batch = IteratorGetNext(handle) output_types=[int64]
    unique = Unique(batch) T=int64
    table = VariableV2() dtype=float32 shape=(8, 4)
    value = Identity(table) T=float32
    axis = Const() dtype=int32
    rows = GatherV2(value, unique, axis) Tparams=float32 Tindices=int64
    shape = Shape(rows) T=float32
    kept = Const(^rows) dtype=int32
    waiting = Add(shape, kept, ^unique) T=int32
    take = TensorBufferTake() dtypes=[int64]
    layers = Neg(axis) T=int32
    mixed = Mul(shape, layers) T=int32
    random = RandomShuffle(batch) T=int64
    looped = Enter(batch) T=int64 frame_name="loop"
"""
PREFETCHED = frozenset(["batch", "unique", "rows", "shape", "kept", "waiting", "random", "looped"])
REGIONS = Regions({"batch:0": "take:0"}, {}, PREFETCHED)


def copied(wanted: str, regions: Regions = REGIONS) -> List[str]:
    view = view_of(GRAPH)
    return Change.by(view, batch_copies(view, [wanted], regions)).drawn(
        {"graph_opt_of_batch": "copy"}
    )


def test_what_a_batch_decides_is_computed_from_the_take() -> None:
    assert copied("unique:1") == lines("+ copy/unique = Unique(take)")


def test_tables_may_be_read_for_the_shape_of_rows() -> None:
    assert sorted(copied("shape:0")) == lines("""
        + copy/rows = GatherV2(value, copy/unique, axis)
        + copy/shape = Shape(copy/rows)
        + copy/unique = Unique(take)
    """)


def test_copies_wait_for_nothing_of_prefetch() -> None:
    drawn = copied("waiting:0")
    assert "+ copy/waiting = Add(copy/shape, copy/kept)" in drawn
    assert "+ copy/kept = Const()" in drawn


def test_nodes_of_main_are_copied_if_they_depend_on_prefetch_and_shared_if_not() -> None:
    drawn = copied("mixed:0")
    assert "+ copy/mixed = Mul(copy/shape, layers)" in drawn
    assert not any(line.startswith("+ copy/layers") for line in drawn)


def test_what_replaces_a_tensor_is_read_in_its_place() -> None:
    regions = Regions({"fused:0": "take:0"}, {"batch:0": "fused:0"}, PREFETCHED)
    assert copied("unique:0", regions) == lines("+ copy/unique = Unique(take)")


def test_nothing_is_copied_twice() -> None:
    view = view_of(GRAPH)
    once = batch_copies(view, ["unique:0", "shape:0", "unique:1"], REGIONS)
    names = [node.name for node in once.nodes]
    assert sorted(names) == [copy_name(name) for name in ("rows", "shape", "unique")]
    grown = Change.by(view, once).after
    assert not batch_copies(GraphView(grown), ["unique:1"], REGIONS).nodes


@pytest.mark.parametrize(
    "wanted, reason",
    [
        ("rows:0", "'rows' (GatherV2) reads or changes state"),
        ("random:0", "'random' (RandomShuffle) reads or changes state"),
        ("looped:0", "'looped' is in a loop"),
    ],
)
def test_what_something_else_decides_is_refused(wanted: str, reason: str) -> None:
    with pytest.raises(NotOfBatch) as raised:
        copied(wanted)
    assert reason in str(raised.value)
