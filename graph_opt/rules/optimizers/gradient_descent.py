"""Gradient descent: subtracts gradients times a rate from rows, including duplicates.

ScatterSub(table, indices, values * rate)                              for a reference
ScatterAdd | ResourceScatterAdd (table, indices, -values * rate)       for a resource, and Keras
"""

from __future__ import annotations

from graph_opt.graph.view import GraphView
from graph_opt.rules.match.pattern import one_of, op, tensor
from graph_opt.rules.optimizers.update_inputs import (
    FoundUpdate,
    flag,
    hyperparameter,
    matched,
    scalar,
)

OPTIMIZER = "GradientDescent"
_ADDS = ("ScatterAdd", "ResourceScatterAdd")
ENDS = frozenset(["ScatterSub", *_ADDS])


def read(view: GraphView, writer: str) -> FoundUpdate:
    """Reads an update by a scatter op.

    Raises:
      Refusal: lookup_differs.
    """
    table, indices, values, rate = (tensor(n) for n in ("table", "indices", "values", "rate"))
    rate = scalar(rate)
    update = one_of(
        op("ScatterSub", table, indices, op("Mul", values, rate)),
        op(_ADDS, table, indices, op("Mul", op("Neg", values), rate)),
    )
    found = matched(view, writer, update)
    return FoundUpdate(
        optimizer=OPTIMIZER,
        slots=(),
        hyperparameters=(hyperparameter(view, found.tensors["rate"]),),
        attributes={"use_locking": flag(view, writer, "use_locking")},
        values=found.tensors["values"],
        indices=found.tensors["indices"],
        end=writer,
        nodes=tuple(found.nodes),
    )
