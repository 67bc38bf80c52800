"""How the rows of a batch are divided among parts, and how means of parts are put together."""

from __future__ import annotations

from typing import List, Optional

import pytest

from graph_opt.graph.op_call import Tensor
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import TensorRef
from graph_opt.passes.micro_batches.row_parts import RowParts, sizes
from graph_opt.passes.micro_batches.values import RowCount, Rows
from graph_opt.passes.node_writer import NodeWriter, tensor_of
from tests.passes.drawings import Change, lines, view_of

GRAPH = """
    batch = Placeholder() on /device:CPU:1 dtype=float32 _output_shapes=[(None, 6)]
    mean = Mean(batch, batch) T=float32 Tidx=int32
    mean_2 = Const() dtype=float32
"""
BATCH = TensorRef("batch", 0)


class Parts:
    """Three parts of a batch, in a graph of its own."""

    def __init__(self, static: Optional[int]) -> None:
        self.rows = Rows(0, RowCount(BATCH, static))
        self._view = view_of(GRAPH)
        self._writer = NodeWriter(self._view, "S", "")
        self.made = RowParts(self._view, self._writer, 3, self.tensor)

    def tensor(self, ref: TensorRef) -> Tensor:
        """A tensor of the graph."""
        return tensor_of(self._view, ref)

    def drawn(self) -> List[str]:
        """The nodes that were written."""
        rewrite = Rewrite(tuple(self._writer.nodes))
        return Change.by(self._view, rewrite).drawn({"S/": "", " on /device:CPU:1": ""})


@pytest.mark.parametrize(
    "rows, number, expected",
    [(9, 3, [3, 3, 3]), (8, 3, [2, 3, 3]), (2, 3, [0, 1, 1]), (0, 2, [0, 0]), (7, 1, [7])],
)
def test_parts_differ_by_one_row_at_most(rows: int, number: int, expected: List[int]) -> None:
    assert sizes(rows, number) == expected and sum(expected) == rows


def test_an_open_number_of_rows_is_divided_in_the_step() -> None:
    parts = Parts(None)
    assert parts.made.part(BATCH, parts.rows, 1) == "S/1/rows_of/batch/0_0"
    assert parts.drawn() == lines("""
        + sizes/batch/0/places = Const()
        + sizes/batch/0/number = Const()
        + count/batch/0/shape = Shape(batch)
        + count/batch/0/begin = Const()
        + count/batch/0/end = Const()
        + count/batch/0/stride = Const()
        + count/batch/0 = StridedSlice(count/batch/0/shape, count/batch/0/begin, \
          count/batch/0/end, count/batch/0/stride)
        + sizes/batch/0/more = AddV2(count/batch/0, sizes/batch/0/places)
        + sizes/batch/0 = FloorDiv(sizes/batch/0/more, sizes/batch/0/number)
        + rows_of/batch/0_0/axis = Const()
        + rows_of/batch/0_0 = SplitV(batch, sizes/batch/0, rows_of/batch/0_0/axis)
        + 1/rows_of/batch/0_0 = Identity(rows_of/batch/0_0:1)
    """)


def test_a_known_number_of_rows_is_divided_at_once() -> None:
    parts = Parts(8)
    parts.made.part(BATCH, parts.rows, 0)
    assert parts.drawn() == lines("""
        + sizes/batch/0 = Const()
        + rows_of/batch/0_0/axis = Const()
        + rows_of/batch/0_0 = SplitV(batch, sizes/batch/0, rows_of/batch/0_0/axis)
        + 0/rows_of/batch/0_0 = Identity(rows_of/batch/0_0)
    """)


def test_each_tensor_is_split_once_for_all_parts() -> None:
    parts = Parts(8)
    made = [parts.made.part(BATCH, parts.rows, place) for place in (0, 1, 1, 2)]
    assert len(set(made)) == 3
    assert sum("SplitV" in line for line in parts.drawn()) == 1
    assert [place for place, _ in parts.made.gates] == [0, 1, 2]


def test_several_elements_for_each_row_stay_together() -> None:
    parts = Parts(8)
    parts.made.part(BATCH, parts.rows._replace(times=2), 0)
    assert "+ rows_of/batch/0_0/sizes = Mul(sizes/batch/0, rows_of/batch/0_0/sizes/times)" in (
        parts.drawn()
    )


def test_the_mean_of_a_part_counts_by_its_share_of_rows() -> None:
    parts = Parts(None)
    mean = parts.tensor(TensorRef("mean_2", 0))
    assert parts.made.share(TensorRef("mean", 0), parts.rows, mean, 2) == "S/2/mean/share"
    drawn = parts.drawn()
    assert drawn[-3:] == lines("""
        + shares/batch/0/quotient = RealDiv(shares/batch/0/sizes, shares/batch/0/count)
        + shares/batch/0 = Unpack(shares/batch/0/quotient)
        + 2/mean/share = MulNoNan(mean_2, shares/batch/0:2)
    """)


def test_rows_that_are_the_same_are_counted_once() -> None:
    parts = Parts(None)
    other = RowCount(TensorRef("mean", 0), None)
    assert other.unite(parts.rows.rows) or parts.rows.rows.unite(other)
    assert parts.made.row_count(parts.rows.rows) == parts.made.row_count(other)
