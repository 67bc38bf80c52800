"""Gradient descent: subtracts gradients times a rate from rows, including duplicates.

ScatterSub(table, indices, values * rate)                              for a reference
ScatterAdd | ResourceScatterAdd (table, indices, -values * rate)       for a resource, and Keras
"""

from __future__ import annotations

from graph_opt.graph.view import GraphView
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, one_of, op, tensor
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm, matched_slices
from graph_opt.rules.optimizers.update_inputs import flag, hyperparameter, scalar

OPTIMIZER = "GradientDescent"
_ADDS = ("ScatterAdd", "ResourceScatterAdd")


def _pattern() -> Pattern:
    table, indices, values, rate = (tensor(n) for n in ("table", "indices", "values", "rate"))
    rate = scalar(rate)
    return one_of(
        op("ScatterSub", table, indices, op("Mul", values, rate)),
        op(_ADDS, table, indices, op("Mul", op("Neg", values), rate)),
    )


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=(),
        hyperparameters=(hyperparameter(view, found.tensors["rate"]),),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        slices=matched_slices(found),
        end=writer,
        nodes=tuple(found.nodes),
    )


FORM = UpdateForm(frozenset(["ScatterSub", *_ADDS]), _pattern(), _read)
