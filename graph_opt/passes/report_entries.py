"""What reports say about a lookup and about a stage."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Optional

from graph_opt.compat.op_definitions import dtype_name, dtype_size
from graph_opt.compat.stateful_ops import CALLS_PYTHON
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import StageSpec
from graph_opt.reporting.outcomes import LEFT, MOVED, BoundaryTensor, LookupOutcome, StageReport
from graph_opt.rules.lookup import FUSED_APIS, Lookup


def lookup_outcome(
    lookup: Lookup,
    stage: Optional[str] = None,
    refusal: Optional[Refusal] = None,
    most_missed: Optional[int] = None,
) -> LookupOutcome:
    """What became of a lookup.

    Args:
      lookup: The lookup, as it was found.
      stage: The stage that runs it ahead; None if it runs in main.
      refusal: Why it must stay there, if something prevents moving it.
      most_missed: How many updates its rows may miss, if it runs ahead.
    """
    return LookupOutcome(
        name=lookup.name,
        api=lookup.api,
        tables=tuple(table.name for table in lookup.tables),
        combiner=lookup.combiner,
        output=str(lookup.output),
        device=lookup.tables[0].device if lookup.tables else "",
        outcome=LEFT if stage is None else MOVED,
        stage=stage or "",
        refusal=None if refusal is None else refusal.to_dict(),
        # One op that the model calls itself may do several.
        count=len(lookup.ids) if lookup.api in FUSED_APIS else 1,
        most_missed=most_missed,
    )


def stage_report(
    view: GraphView,
    spec: StageSpec,
    taken: Mapping[TensorRef, str],
    io_source: str,
    inferred: bool,
    nodes: Collection[str],
) -> StageReport:
    """Describes a prefetch stage.

    Args:
      view: The graph that contains the boundary tensors.
      spec: The stage.
      taken: For each boundary tensor, the output of the take that carries it.
      io_source: The node that returns its batches.
      inferred: Whether a pass added the IO stage.
      nodes: The prefetch region.
    """
    return StageReport(
        name=spec.name,
        io_source=io_source,
        io_stage=",".join(spec.upstream),
        inferred=inferred,
        nodes=len(nodes),
        boundary=tuple(_boundary_tensor(view, tensor, take) for tensor, take in taken.items()),
        python_functions=sum(view.op(name) in CALLS_PYTHON for name in nodes),
    )


def _boundary_tensor(view: GraphView, tensor: TensorRef, take: str) -> BoundaryTensor:
    """A tensor that crosses, with its size as far as its shape is known."""
    number = view.dtype(tensor) or 0
    shape = view.shape(tensor)
    size = dtype_size(number)
    return BoundaryTensor(
        name=str(tensor),
        take=take,
        dtype=dtype_name(number),
        shape=shape,
        bytes=_product(shape, size),
        bytes_per_row=None if not shape or shape[0] is not None else _product(shape[1:], size),
    )


def _product(shape: Any, size: Any) -> Any:
    if shape is None or size is None or any(length is None for length in shape):
        return None
    product = size
    for length in shape:
        product *= length
    return product
