"""Tensors as large as a table that are 0 except in the rows of some IndexedSlices.

    UnsortedSegmentSum(values, indices, rows of the table)        IndexedSlices as a tensor
        -> AddN | Mul(_, factor) | RealDiv | Neg | Minimum ...    what leaves rows of 0 at 0
        -> ExpandDims, ConcatV2 | Pack -> Mean over these         an average over towers
        -> L2Loss | Sum of all elements                           a norm
        -> AssignAdd(variable)                                    accumulated gradients
    variable -> Identity | ReadVariableOp                         what has been accumulated

TensorFlow makes them where a script computes with IndexedSlices as with tensors. The same ops give
the same numbers if all of these tensors have only the rows that occur in any of the slices, and
those in which an accumulator is not 0.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW, SWITCHES
from graph_opt.graph.precedence import Precedence
from graph_opt.graph.view import GraphView, Shape, TensorRef, Use
from graph_opt.rules.gradients.source_uses import SourceUses
from graph_opt.rules.match.table import describe, find_read
from graph_opt.rules.op_names import ADDS, ROW_READERS
from graph_opt.rules.optimizers.table_writers import may_change

SLICES_AS_TENSOR = "UnsortedSegmentSum"
_READS = ("Identity", "ReadVariableOp")
_ACCUMULATES = frozenset(["AssignAdd", "AssignAddVariableOp"])
_FLOAT32 = tf.float32.as_datatype_enum
_SUMS = frozenset(["AddN", *ADDS])
# Of these, 0 is 0 and False is False.
_OF_ONE = frozenset(
    ["Identity", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot", "Neg", "Square"]
    + ["Abs", "Sign", "IsNan", "IsInf"]
)
_OF_SEVERAL = _SUMS | {"Sub", "Mul", "Maximum", "Minimum"}
_QUOTIENTS = frozenset(["RealDiv", "Div", "DivNoNan"])
_TOTALS = frozenset(["Sum", "Any"])
_REDUCTIONS = _TOTALS | {"All", "L2Loss"}


class _Rows(NamedTuple):
    """What is known of a tensor of this kind.

    Attributes:
      shape: Its static shape, without the axis along which several are stacked.
      stacked: Whether it has such an axis, the first one.
      background: The value of all elements in other rows: 0, or 1 where it says that they are
        finite.
    """

    shape: Tuple[int, ...]
    stacked: bool = False
    background: int = 0


@dataclasses.dataclass(frozen=True)
class RowWiseRegion:
    """What computes one such tensor, and norms of it and of what it is computed from.

    Attributes:
      result: The tensor.
      sources: The nodes that everything is computed from: IndexedSlices as tensors, and reads of
        accumulators.
      reads: For each source, the tensor that is searched: the value of an accumulator that only a
        branch uses is searched there.
      accumulators: The variables that these read.
      waits: For each source, the nodes after which it is used.
      nodes: What is computed from these, in the order of the computation.
      totals: Edges to what reduces any of these to a number.
      added_by: The node that adds it to an accumulator; "" for any other.
      only_totals: Whether nothing else about it matters.
    """

    result: TensorRef
    sources: Tuple[str, ...]
    reads: Tuple[TensorRef, ...]
    accumulators: Tuple[str, ...]
    waits: Tuple[Tuple[str, ...], ...]
    nodes: Tuple[str, ...]
    totals: Tuple[Use, ...]
    added_by: str = ""
    only_totals: bool = False

    def is_sum(self, view: GraphView) -> bool:
        """Whether it is a mere sum of slices, of which nothing takes a norm."""
        is_plain = not self.totals and not self.accumulators
        return is_plain and all(view.op(name) in _SUMS for name in self.nodes)


class RowWise:
    """Recognises such tensors in one graph.

    Args:
      view: The graph.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._known: Dict[TensorRef, Optional[_Rows]] = {}
        self._accumulators: Dict[str, str] = {}
        self._precedence: Optional[Precedence] = None

    def region_of(self, tensor: TensorRef) -> Optional[RowWiseRegion]:
        """What computes a tensor; None if it is not one that has only some rows of a table."""
        rows = self._rows(tensor)
        if rows is None or rows.stacked or rows.background:
            return None
        needed = self._computed_by(tensor)
        totals = self._totals(needed)
        for use in totals:
            needed.update(self._computed_by(self._view.inputs(use.consumer)[use.slot]))
        sources = [name for name in needed if self._is_source(name)]
        read = [self._accumulators[name] for name in sources if name in self._accumulators]
        nodes = [name for name in needed if not self._is_source(name)]
        uses = [SourceUses(self._view, name, tensor, nodes, totals) for name in sources]
        waits = []
        for source, used in zip(sources, uses):
            written = self._written_before(source, used)
            if written is None:
                return None
            waits.append(written)
        if totals and self._depend_on(sources, waits, totals):
            return None
        reads = [TensorRef(name, 0) for name in sources]
        if len(sources) == 1:
            reads = [uses[0].in_branch()]
        return RowWiseRegion(
            tensor,
            tuple(sources),
            tuple(reads),
            tuple(dict.fromkeys(read)),
            tuple(waits),
            tuple(nodes),
            tuple(totals),
        )

    def is_row_wise(self, tensor: TensorRef) -> bool:
        """Whether a tensor has values in the rows of some slices alone."""
        return self._rows(tensor) is not None

    def reduced(self) -> Iterator[Tuple[TensorRef, Use]]:
        """Such tensors as large as a table of which something takes a total, and what does."""
        shapes = self._shapes_of_tables()
        for name in self._view.of_op(*sorted(_REDUCTIONS)):
            tensor = self._view.inputs(name)[0]
            rows = self._rows(tensor)
            if rows is not None and rows.shape in shapes and self._reduces(tensor, Use(name, 0)):
                yield tensor, Use(name, 0)

    def _shapes_of_tables(self) -> Set[Shape]:
        tables = (self._view.inputs(name)[0] for name in self._view.of_op(*sorted(ROW_READERS)))
        reads = (find_read(self._view, table) for table in tables)
        names = dict.fromkeys(read.variable for read in reads if read is not None)
        return {describe(self._view, name).shape for name in names}

    def accumulations(self, variable: str) -> List[str]:
        """The nodes that add such tensors to a variable."""
        found: List[str] = []
        waiting = [variable]
        while waiting:
            for _, use in self._view.node_uses(waiting.pop()):
                op = self._view.op(use.consumer)
                if op in INTO_CONTROL_FLOW or op == "RefIdentity":
                    waiting.append(use.consumer)
                elif op in _ACCUMULATES and use.slot == 0:
                    if self._rows(self._view.inputs(use.consumer)[1]) is not None:
                        found.append(use.consumer)
        return found

    def _is_source(self, name: str) -> bool:
        return self._view.op(name) == SLICES_AS_TENSOR or name in self._accumulators

    def _depend_on(
        self, sources: List[str], waits: List[Tuple[str, ...]], totals: List[Use]
    ) -> bool:
        """Whether the rows that occur are computed from one of the totals, or after it."""
        inputs = [self._view.inputs(source) for source in sources]
        indices = [one[1].node for one in inputs if len(one) > 1]
        consumers = [use.consumer for use in totals]
        before = (*indices, *itertools.chain(*waits))
        return any(self._order.before(one, consumers) for one in before)

    def _written_before(self, source: str, uses: SourceUses) -> Optional[Tuple[str, ...]]:
        """What writes to a source's memory before it is used; None if nobody can say."""
        variable = self._accumulators.get(source, "")
        if not variable or describe(self._view, variable).is_resource:
            return ()
        return uses.written_before(variable, self._order)

    @property
    def _order(self) -> Precedence:
        if self._precedence is None:
            ops = [op for op in self._view.ops() if may_change(op) or op in _REDUCTIONS]
            self._precedence = Precedence(self._view, self._view.of_op(*ops))
        return self._precedence

    def _computed_by(self, tensor: TensorRef) -> Dict[str, None]:
        """The nodes between the slices and a tensor, each after its inputs."""
        done: Dict[str, None] = {}
        stack = [tensor.node]
        while stack:
            name = stack[-1]
            inputs = self._view.inputs(name) if not self._is_source(name) else ()
            waiting = [one.node for one in inputs if self.is_row_wise(one) and one.node not in done]
            if waiting:
                stack.extend(waiting)
            else:
                done[stack.pop()] = None
        return done

    def _totals(self, nodes: Dict[str, None]) -> List[Use]:
        """Edges from what some nodes compute, or what is computed from that, to its reductions."""
        found: List[Use] = []
        seen = dict(nodes)
        waiting = list(nodes)
        while waiting:
            for tensor, use in self._view.node_uses(waiting.pop()):
                if self._reduces(tensor, use):
                    found.append(use)
                elif use.consumer not in seen and self.is_row_wise(TensorRef(use.consumer, 0)):
                    if self._has_sources_in(use.consumer, nodes):
                        seen[use.consumer] = None
                        waiting.append(use.consumer)
        return found

    def _has_sources_in(self, name: str, nodes: Dict[str, None]) -> bool:
        """Whether a node computes with slices of these nodes alone."""
        before = self._computed_by(TensorRef(name, 0))
        return all(one in nodes for one in before if self._is_source(one))

    def _reduces(self, tensor: TensorRef, use: Use) -> bool:
        """Whether the consumer makes a number of all elements that other rows do not change."""
        view, op, rows = self._view, self._view.op(use.consumer), self._rows(tensor)
        if rows is None or use.slot != 0 or rows.stacked:
            return False
        if op == "L2Loss":
            return rows.background == 0
        if op != "All" and op not in _TOTALS:
            return False
        axes = view.constant(view.inputs(use.consumer)[1])
        rank = len(rows.shape)
        whole = axes is not None and sorted(axes.reshape(-1) % rank) == list(range(rank))
        return whole and rows.background == (op == "All")

    def _rows(self, tensor: TensorRef) -> Optional[_Rows]:
        """What is known of a tensor; None if it may have values in any row."""
        stack = [tensor]
        while stack:
            one = stack[-1]
            if one in self._known:
                stack.pop()
                continue
            waiting = [i for i in self._inputs_in_question(one) if i not in self._known]
            if waiting:
                stack.extend(waiting)
            else:
                self._known[stack.pop()] = self._judged(one)
        return self._known[tensor]

    def _inputs_in_question(self, tensor: TensorRef) -> Tuple[TensorRef, ...]:
        op = self._view.op(tensor.node)
        known = op in _OF_ONE or op in _OF_SEVERAL or op in _QUOTIENTS or op in SWITCHES
        known = known or op in ("Cast", "IsFinite", "ExpandDims", "Pack", "ConcatV2", "Mean", "Sum")
        return self._view.inputs(tensor.node) if known else ()

    def _judged(self, tensor: TensorRef) -> Optional[_Rows]:
        """The same, once it is known for its inputs."""
        view, op = self._view, self._view.op(tensor.node)
        if op in SWITCHES:
            return self._known[view.inputs(tensor.node)[0]]
        if tensor.index != 0:
            return None
        if op == SLICES_AS_TENSOR:
            return self._of_slices(tensor)
        if op in _READS and find_read(view, tensor) is not None:
            return self._of_accumulator(tensor)
        inputs = self._inputs_in_question(tensor)
        rows = [self._known[one] for one in inputs]
        if op in _OF_ONE or (op == "Cast" and self._is_float(tensor)):
            return rows[0]
        if op == "IsFinite" and rows[0] is not None and not rows[0].background:
            return rows[0]._replace(background=1)
        if op in ("ExpandDims", "Pack", "ConcatV2", "Mean", "Sum"):
            return self._reshaped(tensor.node, op, rows)
        if op in _OF_SEVERAL and all(one == rows[0] and not _is_true(one) for one in rows):
            return rows[0]
        return self._with_number(op, inputs, rows)

    def _of_slices(self, tensor: TensorRef) -> Optional[_Rows]:
        shape = self._view.shape(tensor)
        indices = self._view.shape(self._view.inputs(tensor.node)[1])
        if indices is None or len(indices) != 1 or not _is_static(shape):
            return None
        assert shape is not None
        return _Rows(tuple(size or 0 for size in shape))

    def _of_accumulator(self, tensor: TensorRef) -> Optional[_Rows]:
        """What is known of a variable's value, if such tensors are added to the variable."""
        self._known[tensor] = None  # A sum of itself and others is no such tensor.
        read = find_read(self._view, tensor)
        assert read is not None
        if read.control_flow and self._view.op(read.control_flow) not in SWITCHES:
            return None
        variable = describe(self._view, read.variable)
        if variable.dtype != _FLOAT32 or not _is_static(variable.shape):
            return None
        if self._is_looked_up(read.variable) or not self.accumulations(read.variable):
            return None
        self._accumulators[tensor.node] = read.variable
        return _Rows(tuple(size or 0 for size in variable.shape or ()))

    def _is_looked_up(self, variable: str) -> bool:
        """Whether it is a table, of which most rows are not 0."""
        readers = self._view.readers(variable)
        readers += [reader for read in readers for reader in self._view.readers(read)]
        return any(self._view.op(reader) in ROW_READERS for reader in readers)

    def _reshaped(self, name: str, op: str, rows: List[Optional[_Rows]]) -> Optional[_Rows]:
        """What stacks such tensors, or sums a stack of them."""
        view, first = self._view, rows[0]
        if first is None or first.background:
            return None
        if op == "Pack":
            alike = all(one == first for one in rows) and not first.stacked
            axis = view.attribute(name, "axis")
            return first._replace(stacked=True) if alike and not (axis and axis.i) else None
        axis_input = view.constant(view.inputs(name)[-1])
        if axis_input is None or [int(one) for one in axis_input.reshape(-1)] != [0]:
            return None
        if op == "ExpandDims":
            return first._replace(stacked=True) if not first.stacked else None
        if op == "ConcatV2":
            alike = all(one == first for one in rows[:-1])
            return first if alike and first.stacked else None
        kept = view.attribute(name, "keep_dims")
        return first._replace(stacked=False) if first.stacked and not (kept and kept.b) else None

    def _with_number(
        self, op: str, inputs: Tuple[TensorRef, ...], rows: List[Optional[_Rows]]
    ) -> Optional[_Rows]:
        """An op of such a tensor and one that is the same for all rows."""
        if len(inputs) != 2:
            return None
        place = 0 if rows[0] is not None else 1
        found, other = rows[place], inputs[1 - place]
        if found is None or rows[1 - place] is not None or found.background:
            return None
        if not _is_same_for_all_rows(self._view.shape(other), found):
            return None
        if op == "Mul" or (op in _QUOTIENTS and place == 0):
            return found
        bound = self._view.constant(other)
        if bound is None or op not in ("Maximum", "Minimum"):
            return None
        keeps_zero = np.all(bound <= 0) if op == "Maximum" else np.all(bound >= 0)
        return found if keeps_zero else None

    def _is_float(self, tensor: TensorRef) -> bool:
        dtype = self._view.dtype(tensor)
        return dtype is not None and bool(tf.as_dtype(dtype).is_floating)


def _is_true(rows: Optional[_Rows]) -> bool:
    return rows is None or bool(rows.background)


def _is_static(shape: Shape) -> bool:
    return bool(shape) and None not in (shape or ()) and 0 not in (shape or ())


def _is_same_for_all_rows(shape: Shape, rows: _Rows) -> bool:
    """Whether a tensor of this shape is broadcast over the rows, and changes no other size."""
    if shape is None or rows.stacked:
        return shape == ()
    sizes = (1, *rows.shape[1:])
    return len(shape) <= len(sizes) and all(
        size in (1, of_row) for size, of_row in zip(reversed(shape), reversed(sizes))
    )
