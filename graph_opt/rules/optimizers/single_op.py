"""Optimizers for which TensorFlow has an op, whose inputs their specs describe.

    values, indices of the gradients
        -> [UnsortedSegmentSum(values, Unique(indices):1), Unique(indices):0]       unique rows
        -> SparseApply*(table, slots, hyperparameters, that sum, these rows)

    or the gradients as a dense tensor (dense_gradient) -> Apply*(table, slots, ..., that tensor)

If the rows are not made unique, the op applies one duplicate after the other; such an update is
not recognised.
"""

from __future__ import annotations

import functools
from typing import Mapping, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.ops.optimizers import OptimizerSpec, StockOp, optimizer_specs
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, op, tensor
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.optimizers.dense_gradient import dense_gradient
from graph_opt.rules.optimizers.update_form import GRADIENT, FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, summed

_RESOURCE = "Resource"
_NESTEROV = "use_nesterov"
_PENALIZED = "L2"  # What is added to the name of a spec that also takes a penalty on all weights.


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
    update = FoundUpdate(
        optimizer=spec.name,
        slots=tuple(found.tensors[slot] for slot in spec.slots),
        hyperparameters=tuple(
            hyperparameter(view, found.tensors[name]) if name in found.tensors else 0.0
            for name in spec.hyperparameters
        ),
        attributes={name: flag(view, writer, name, spec.flags.get(name, False)) for name in names},
        slices=(),
        end=writer,
        nodes=tuple(found.nodes),
    )
    if GRADIENT not in found.tensors:
        return update._replace(slices=matched_slices(found))
    _refuse_nesterov(spec, view, writer)
    structure = Structure(view)
    gradient = dense_gradient(structure, found.tensors["table"], found.tensors[GRADIENT])
    if gradient.decay:
        update = _with_penalty(update, gradient.decay)
    nodes = (*update.nodes, *structure.seen)
    return update._replace(slices=gradient.slices, nodes=nodes)


def _refuse_nesterov(spec: OptimizerSpec, view: GraphView, writer: str) -> None:
    """ApplyAdam has this flag, which no optimizer of TensorFlow's sets."""
    if _NESTEROV not in spec.flags and flag(view, writer, _NESTEROV):
        raise Refusal("lookup_differs", at=writer, need="no " + _NESTEROV, saw=_NESTEROV)


def _with_penalty(update: FoundUpdate, decay: float) -> FoundUpdate:
    """The update that shrinks weights, too."""
    if update.optimizer + _PENALIZED not in optimizer_specs():
        raise Refusal(
            "penalty_on_whole_table",
            at=update.end,
            need="gradient descent or momentum, whose steps without gradient have a closed form",
            saw="{} with a gradient in every row".format(update.optimizer),
        )
    return update._replace(
        optimizer=update.optimizer + _PENALIZED,
        hyperparameters=(*update.hyperparameters, decay),
    )


@functools.lru_cache(maxsize=None)
def _pattern(stock: StockOp) -> Pattern:
    values, rows = summed()
    known = {"gradient": values, "rows": rows} if "rows" in stock.inputs else {}
    inputs = [known[name] if name in known else tensor(name) for name in stock.inputs]
    return op((stock.op, _RESOURCE + stock.op), *inputs)
