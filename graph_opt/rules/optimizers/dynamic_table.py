"""Updates of dynamic tables: one op for every optimizer, which moves the rows of keys alone.

    values, indices of the gradients
        -> [UnsortedSegmentSum(values, Unique(indices):1), Unique(indices):0]       or as they are
        -> DynamicTableApply(table, slots, hyperparameters, these keys, that sum)

The op sums duplicates of a key itself, so whether that was done before makes no difference.
"""

from __future__ import annotations

import functools
from typing import Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.optimizers import OptimizerSpec, optimizer_specs
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Condition, Pattern, one_of, op, tensor
from graph_opt.rules.op_names import DYNAMIC_UPDATE
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import hyperparameter, listed_flags, summed


@functools.lru_cache(maxsize=None)
def forms() -> Tuple[UpdateForm, ...]:
    """One form for each optimizer."""
    return tuple(
        UpdateForm(frozenset([DYNAMIC_UPDATE]), _pattern(spec), functools.partial(_read, spec))
        for spec in optimizer_specs().values()
    )


def _pattern(spec: OptimizerSpec) -> Pattern:
    values, keys = summed()
    before = [tensor(name) for name in ("table", *spec.slots, *spec.hyperparameters)]
    return one_of(
        op(DYNAMIC_UPDATE, *before, keys, values),
        op(DYNAMIC_UPDATE, *before, tensor("indices"), tensor("values")),
    ).where(_is_of(spec.name), "the optimizer {}".format(spec.name))


def _is_of(optimizer: str) -> Condition:
    def holds(match: Match, found: TensorRef) -> bool:
        named = match.view.attribute(found.node, "optimizer")
        return named is not None and bool(named.s == optimizer.encode())

    return holds


def _read(spec: OptimizerSpec, view: GraphView, writer: str, found: Match) -> FoundUpdate:
    return FoundUpdate(
        optimizer=spec.name,
        slots=tuple(found.tensors[slot] for slot in spec.slots),
        hyperparameters=tuple(
            hyperparameter(view, found.tensors[name]) for name in spec.hyperparameters
        ),
        attributes=listed_flags(view, writer, spec),
        slices=matched_slices(found),
        end=writer,
        nodes=tuple(found.nodes),
        is_lazy=True,
    )
