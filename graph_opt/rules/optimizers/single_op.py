"""Optimizers for which TensorFlow has an op, whose inputs their specs describe.

    values, indices of the gradients
        -> [UnsortedSegmentSum(values, Unique(indices):1), Unique(indices):0]       unique rows
        -> SparseApply*(table, slots, hyperparameters, that sum, these rows)

If the rows are not made unique, the op applies one duplicate after the other; such an update is
not recognised.
"""

from __future__ import annotations

import functools
from typing import Mapping, Tuple

from graph_opt.graph.view import GraphView
from graph_opt.ops.optimizers import OptimizerSpec, StockOp, optimizer_specs
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, op, tensor
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, summed

_RESOURCE = "Resource"


@functools.lru_cache(maxsize=None)
def _stock_ops() -> Mapping[str, Tuple[OptimizerSpec, StockOp]]:
    """Spec and inputs by op type, for references and for resource variables."""
    return {
        kind + stock.op: (spec, stock)
        for spec in optimizer_specs().values()
        for stock in spec.stock_ops
        for kind in ("", _RESOURCE)
    }


@functools.lru_cache(maxsize=None)
def forms() -> Tuple[UpdateForm, ...]:
    """One form for each op."""
    return tuple(
        UpdateForm(frozenset([op_type]), _pattern(stock), functools.partial(_read, spec))
        for op_type, (spec, stock) in _stock_ops().items()
    )


def _read(spec: OptimizerSpec, view: GraphView, writer: str, found: Match) -> FoundUpdate:
    names = (*spec.flags, "use_locking")
    return FoundUpdate(
        optimizer=spec.name,
        slots=tuple(found.tensors[slot] for slot in spec.slots),
        hyperparameters=tuple(
            hyperparameter(view, found.tensors[name]) if name in found.tensors else 0.0
            for name in spec.hyperparameters
        ),
        attributes={name: flag(view, writer, name, spec.flags.get(name, False)) for name in names},
        values=found.tensors["values"],
        indices=found.tensors["indices"],
        end=writer,
        nodes=tuple(found.nodes),
    )


@functools.lru_cache(maxsize=None)
def _pattern(stock: StockOp) -> Pattern:
    values, rows = summed()
    known = {"gradient": values, "rows": rows}
    inputs = [known[name] if name in known else tensor(name) for name in stock.inputs]
    return op((stock.op, _RESOURCE + stock.op), *inputs)
