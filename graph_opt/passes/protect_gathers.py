"""Keeps TensorFlow's graph optimizer from reading whole tables.

TensorFlow 2.15's arithmetic optimizer turns `Unique -> ResourceGather -> SparseSegment*` into a
`ReadVariableOp` of the table and a `SparseSegment*` over it. After the first sparse update that
read is a copy of the table in every step. An `EnsureShape` between gather and reduction defeats the
pattern and costs nothing (measured: docs/benchmarks-tables.md, stock_trap).
"""

from __future__ import annotations

from typing import Any, List, NamedTuple

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor, call_op
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted

_REDUCTIONS = (
    "SparseSegmentMean",
    "SparseSegmentSum",
    "SparseSegmentSqrtN",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
)
_CHANGE = "{} kept from becoming whole-table reads"


class ExposedRead(NamedTuple):
    """A reduction for which TensorFlow's optimizer would read the whole table.

    Attributes:
      rows: The tensor of gathered rows that the reduction reads.
      reduction: The SparseSegment node, whose input 0 is `rows`.
      gather: The ResourceGather node.
    """

    rows: TensorRef
    reduction: str
    gather: str


def exposed_reads(view: GraphView) -> List[ExposedRead]:
    """All parts of the graph that match the optimizer's pattern, in graph order."""
    found: List[ExposedRead] = []
    for reduction in view.of_op(*_REDUCTIONS):
        rows = view.inputs(reduction)[0]
        gather = rows
        while view.op(gather.node) == "Identity":
            gather = view.inputs(gather.node)[0]
        if view.op(gather.node) != "ResourceGather":
            continue
        ids = view.inputs(gather.node)[1]
        if view.op(view.through_identity(ids).node) == "Unique":
            found.append(ExposedRead(rows, reduction, gather.node))
    return found


def ensure_shape(view: GraphView, rows: TensorRef, source: str, scope: str) -> Any:
    """An EnsureShape NodeDef in `scope` that reads `source` and has the shape of `rows`."""
    read = Tensor(source, view.dtype(rows) or tf.float32.as_datatype_enum)
    arguments = {"input": read, "shape": view.shape(rows)}
    return call_op("EnsureShape", scope + "/ensure_shape", arguments, view.device(rows.node)).node


def protect_gathers(state: PassState, options: SessionOptions) -> PassState:
    """Protects all exposed reads that some step still runs."""
    reads = exposed_reads(state.view)
    staying = [read for read in reads if read.reduction not in state.name_map.prefetched]
    rewritten = state.rewritten(protect(state.view, staying))
    changes = [_CHANGE.format(counted(len(reads), "gather"))] if reads else []
    return rewritten.reporting(*changes, protected_gathers=tuple(read.gather for read in reads))


def protect(view: GraphView, reads: List[ExposedRead]) -> Rewrite:
    """Protects reads that are not moved."""
    nodes: List[Any] = []
    edits = Edits(view)
    for read in reads:
        scope = "{}/async_embedding".format(read.reduction)
        node = ensure_shape(view, read.rows, read.rows.input_name, scope)
        nodes.append(node)
        edits.move_input(read.reduction, 0, node.name)
    return edits.rewrite(nodes)
