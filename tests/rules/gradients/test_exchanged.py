"""Gradients of sharded tables are known as the sums that an exchange makes, divided or not."""

from __future__ import annotations

from typing import Optional, Tuple

import pytest

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.allgather import number_key
from graph_opt.rules.gradients.exchanged import TableGradient, table_gradient
from graph_opt.rules.gradients.gather import Slices
from tests.passes.drawings import view_of

SUMS = """
    requests = Placeholder() dtype=int64
    splits = Placeholder() dtype=int32
    gradients = Placeholder() dtype=float32
    rows = Const() dtype=int64
    sums = ExchangeGatherGrad(requests, splits, gradients, rows) num_shards=2 T={} \
      table_names=['a', 'b'] table_widths=[4, 3] served=[1]{}
    ranks = HorovodSize() process_set_id=0
    number = Cast(ranks) SrcT=int32 DstT=float32
    again = Cast(ranks) SrcT=int32 DstT=float32
    vector = Placeholder() dtype=float32 shape=(None,)
    mean = RealDiv(sums:3, number) T=float32
    scaled = Mul(sums:3, number) T=float32
    of_vector = RealDiv(sums:3, vector) T=float32
    ids = Cast(sums:1) SrcT=int64 DstT=int32
    other = Identity(sums) T=int64
"""


def view(dtype: str = "float32", more: str = "") -> GraphView:
    return view_of(SUMS.format(dtype, more))


def found(values: str, indices: str, view: GraphView) -> Optional[TableGradient]:
    return table_gradient(view, Slices(TensorRef.parse(values), TensorRef.parse(indices)))


@pytest.mark.parametrize("values, divisor", [("sums:3", None), ("mean", "number:0")])
@pytest.mark.parametrize("indices", ["sums:1", "ids"])
def test_sums_are_found_behind_a_division(
    values: str, indices: str, divisor: Optional[str]
) -> None:
    gradient = found(values, indices, view())
    assert gradient is not None and gradient.place == 1
    assert divisor is None or str(gradient.divisor) == divisor
    received = gradient.received
    assert [str(tensor) for tensor in received.inputs] == ["requests:0", "splits:0", "gradients:0"]
    assert (received.names, received.widths, received.served) == (("a", "b"), (4, 3), (1,))


@pytest.mark.parametrize(
    "slices",
    [("scaled", "sums:1"), ("of_vector", "sums:1"), ("sums:3", "other"), ("gradients", "rows")],
)
def test_other_gradients_are_not(slices: Tuple[str, str]) -> None:
    assert found(*slices, view()) is None


@pytest.mark.parametrize("dtype, more", [("float16", ""), ("float32", " by_key=[False, True]")])
def test_rows_of_keys_or_of_16_bits_are_not(dtype: str, more: str) -> None:
    assert found("sums:3", "sums:1", view(dtype, more)) is None


def test_the_number_of_ranks_is_the_same_wherever_it_is_asked_for() -> None:
    keys = [number_key(view(), TensorRef(name, 0)) for name in ("number", "again", "vector")]
    assert keys[0] == keys[1] != keys[2]
