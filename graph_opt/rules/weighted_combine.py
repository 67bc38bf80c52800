"""Rows multiplied by weights and combined: `embedding_lookup_sparse` with weights.

The rows of every id, with repetition:

    Unique(ids):0 -> gather -> GatherV2(rows, Unique:1)       classic
    ids -> gather                                             fast: allow_fast_lookup of TF 2.15

and how they are combined:

    rows -> [Cast] -> Mul(rows, Reshape(weights))
        -> SegmentSum                                                     sum
        -> SegmentSum -> DivNoNan(SegmentSum(weights))                    mean    (RealDiv in 1.15)
        -> SegmentSum -> DivNoNan(Sqrt(SegmentSum(Pow(weights, 2))))      sqrtn
        -> [Cast]
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as words
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.sparse_segment import unique_behind, uses_through_cast

_SEGMENT_SUMS = frozenset(["SegmentSum", "SegmentSumV2"])
_DIVISIONS = frozenset(["DivNoNan", "RealDiv", "Div"])
_GATHERS = frozenset(["Gather", "GatherV2"])
_SHAPES = frozenset(["Shape", "Const"])


class _Division(NamedTuple):
    combiner: str
    nodes: Tuple[str, ...]  # the division is the last


def grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[Lookup]:
    """The lookup with its rows weighted and combined.

    Weights that a model computes from its variables stay outside, and so does all behind them.
    """
    if lookup.combiner is not None:
        return None
    unique = unique_behind(view, lookup)
    head = _find_spread(view, lookup.output, unique) if unique is not None else ()
    rows = TensorRef(head[-1], 0) if head else lookup.output
    product = _find_product(view, rows)
    if product is None or (unique is not None and not head):
        return None
    weights, casts, multiply = product
    total = _find_total(view, TensorRef(multiply, 0))
    if total is None or forward.depends_on_dense_variable(weights.node):
        return None
    base = (*head, *casts, multiply, total)
    for combiner, tail in _endings(view, total, weights, bool(casts)):
        spine = base + tail
        inner = [lookup.output] + [TensorRef(name, 0) for name in spine[:-1]]
        if all(forward.stays_inside(tensor, spine) for tensor in inner):
            return lookup.grown(
                spine[-1],
                spine if unique is None else (unique, *spine),
                api=words.EMBEDDING_LOOKUP_SPARSE,
                ids=lookup.ids if unique is None else (view.inputs(unique)[0],),
                combiner=combiner,
                weighted=True,
            )
    return None


def _endings(
    view: GraphView, total: str, weights: TensorRef, low_precision: bool
) -> Iterator[Tuple[str, Tuple[str, ...]]]:
    """(combiner, nodes behind the SegmentSum) of the ways in which the pattern may end here.

    The longest comes first. Where its inner tensors are read elsewhere, a shorter one may hold.
    """
    division = _find_division(view, total, weights)
    if division is not None:
        if low_precision:
            for cast in _casts_behind(view, division.nodes[-1]):
                yield division.combiner, (*division.nodes, cast)
        yield division.combiner, division.nodes
    if low_precision:
        for cast in _casts_behind(view, total):
            yield "sum", (cast,)
    yield "sum", ()


def _find_spread(view: GraphView, rows: TensorRef, unique: str) -> Tuple[str, ...]:
    """The gather that puts unique rows back at every occurrence of their id: [U, D] -> [K, D]."""
    for use in view.uses(rows):
        name = use.consumer
        if use.slot == 0 and view.op(name) in _GATHERS:
            if view.inputs(name)[1] == TensorRef(unique, 1):
                return (name,)
    return ()


def _find_product(
    view: GraphView, rows: TensorRef
) -> Optional[Tuple[TensorRef, Tuple[str, ...], str]]:
    """(weights, casts on the way, Mul) where the rows are multiplied, as factor 0, and summed."""
    for use, casts in uses_through_cast(view, rows):
        name = use.consumer
        if use.slot != 0 or view.op(name) != "Mul":
            continue
        weights = view.inputs(name)[1]
        if _one_for_each_row(view, weights) and _find_total(view, TensorRef(name, 0)) is not None:
            return weights, casts, name
    return None


def _one_for_each_row(view: GraphView, weights: TensorRef) -> bool:
    """Whether weights are a vector given as many dimensions as the rows: [K] -> [K, 1]."""
    if view.op(weights.node) != "Reshape":
        return False
    shape = view.inputs(weights.node)[1].node
    return view.op(shape) == "ConcatV2" and view.op(view.inputs(shape)[0].node) in _SHAPES


def _find_total(view: GraphView, product: TensorRef) -> Optional[str]:
    for use in view.uses(product):
        if use.slot == 0 and view.op(use.consumer) in _SEGMENT_SUMS:
            return use.consumer
    return None


def _find_division(view: GraphView, total: str, weights: TensorRef) -> Optional[_Division]:
    for use in view.uses(TensorRef(total, 0)):
        if use.slot != 0 or view.op(use.consumer) not in _DIVISIONS:
            continue
        divisor = view.inputs(use.consumer)[1].node
        combiner, nodes = _read_divisor(view, divisor, view.inputs(total)[1], weights)
        if combiner is not None:
            return _Division(combiner, (*nodes, use.consumer))
    return None


def _read_divisor(
    view: GraphView, divisor: str, segment_ids: TensorRef, weights: TensorRef
) -> Tuple[Optional[str], List[str]]:
    """(combiner, nodes) for the sum of weights, or the root of the sum of their squares."""
    nodes = [divisor]
    squared = view.op(divisor) == "Sqrt"
    if squared:
        nodes.insert(0, view.inputs(divisor)[0].node)
    if view.op(nodes[0]) not in _SEGMENT_SUMS or view.inputs(nodes[0])[1] != segment_ids:
        return None, []
    summed = view.inputs(nodes[0])[0]
    if squared:
        if view.op(summed.node) not in ("Pow", "Square"):
            return None, []
        nodes.insert(0, summed.node)
        summed = view.inputs(summed.node)[0]
    if summed != weights:
        return None, []
    return ("sqrtn" if squared else "mean"), nodes


def _casts_behind(view: GraphView, name: str) -> List[str]:
    """Casts back to the rows' own low precision."""
    uses = view.uses(TensorRef(name, 0))
    return [use.consumer for use in uses if view.op(use.consumer) == "Cast"]
