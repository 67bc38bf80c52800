"""Computes gradients that a script made as large as their table for the rows that occur in them.

    before   slices -> UnsortedSegmentSum -> AddN, Mul, L2Loss ... over all rows -> update
    after    slices -> UnsortedSegmentSum over unique rows -> the same ops
                 -> UnsortedSegmentSum over all rows -> update
                 or -> ScatterAdd of an accumulator
    the accumulator -> its rows that are not 0 -> the same ops -> UnsortedSegmentSum ... -> update

The update then has a gradient as large as the table that is made of IndexedSlices and of nothing
else, which is what `rules/optimizers/dense_gradient.py` recognises; where it is fused, nothing of
the table's size is left. Each row's numbers stay the same to the last bit; norms are summed in
another order.

Only an accumulator is still searched for rows that are not 0, once in each update of the table:
whatever else writes to it, such as a restored checkpoint, may have left some.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterator, List, Set

from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.fusion.compact_region import CompactRegion
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.gradients.row_wise import RowWise, RowWiseRegion
from graph_opt.rules.op_names import ADDS, PASS_VALUES_ON
from graph_opt.rules.optimizers.sparse_update import dense_gradients

_SCOPE = "compact_gradients"
_CHANGE = "{} as large as the table computed for the rows that occur"
_SUMS = frozenset(["AddN", *ADDS])


def compact_gradients(state: PassState, options: SessionOptions) -> PassState:
    """Makes such gradients of the updates that may be fused."""
    wanted = options.group_embedding
    if wanted is None or not wanted.fuse_update:
        return state
    view = state.view
    regions = list(_regions(view))
    if not regions:
        return state
    scope, edits = free_scope(view, _SCOPE), Edits(view)
    nodes: List[Any] = []
    for number, region in enumerate(regions):
        part = CompactRegion(view, region, "{}/{}".format(scope, number), edits)
        part.write()
        nodes += part.nodes
    edits.apply_to_new(nodes)
    rewritten = state.rewritten(edits.rewrite(nodes))
    return rewritten.reporting(_CHANGE.format(counted(len(regions), "gradient")))


def _regions(view: GraphView) -> Iterator[RowWiseRegion]:
    """The largest regions that end in the gradient of an update, or in a term of its sum.

    And those that are added to the accumulators that such a region reads, and those of which only
    a norm is taken, such as one for a summary.
    """
    row_wise = RowWise(view)
    accumulators: Dict[str, None] = {}
    reduced: Set[Use] = set()
    for region in _of_updates(view, row_wise):
        accumulators.update(dict.fromkeys(region.accumulators))
        reduced.update(region.totals)
        yield region
    for variable in accumulators:
        for node in row_wise.accumulations(variable):
            of_sum = row_wise.region_of(view.inputs(node)[1])
            if of_sum is not None:
                reduced.update(of_sum.totals)
                yield dataclasses.replace(of_sum, added_by=node)
    for tensor, use in row_wise.reduced():
        of_total = row_wise.region_of(tensor) if use not in reduced else None
        if of_total is not None and not of_total.accumulators:
            reduced.update(of_total.totals)
            yield dataclasses.replace(of_total, only_totals=True)


def _of_updates(view: GraphView, row_wise: RowWise) -> Iterator[RowWiseRegion]:
    seen: Dict[TensorRef, None] = {}
    waiting = list(dense_gradients(view))
    while waiting:
        tensor = waiting.pop()
        if tensor in seen:
            continue
        seen[tensor] = None
        region = row_wise.region_of(tensor)
        if region is not None and not region.is_sum(view):
            yield region
        elif view.op(tensor.node) in _SUMS:
            waiting.extend(view.inputs(tensor.node))
        elif view.op(tensor.node) in PASS_VALUES_ON:
            waiting.append(view.inputs(tensor.node)[0])
