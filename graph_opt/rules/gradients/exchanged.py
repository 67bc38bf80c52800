"""Gradients of tables sharded across ranks, as the update of a table takes them.

requests, splits, gradients of rows -> ExchangeGatherGrad -> values -> RealDiv(ranks)
                                                          -> indices -> Cast
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.allgather import is_one_number
from graph_opt.rules.gradients.gather import Slices

_FLOAT32 = tf.float32.as_datatype_enum


class ReceivedGradients(NamedTuple):
    """What a rank receives for the tables of an exchange.

    Attributes:
      inputs: Requests, splits, and the gradients of the rows.
      waits_for: The nodes for which their sum waits.
      names: Of the tables, for errors.
      widths: Of the tables.
      served: The numbers of the tables that requests are about.
    """

    inputs: Tuple[TensorRef, ...]
    waits_for: Tuple[str, ...]
    names: Tuple[str, ...]
    widths: Tuple[int, ...]
    served: Tuple[int, ...]


class TableGradient(NamedTuple):
    """The gradient of one of them.

    Attributes:
      received: What its rows are summed from.
      place: Its number among the tables of the exchange.
      divisor: A scalar by which the sums are divided; None: they are not.
    """

    received: ReceivedGradients
    place: int
    divisor: Optional[TensorRef]


def table_gradient(view: GraphView, slices: Slices) -> Optional[TableGradient]:
    """What these slices are summed from; None if they are not the sums of an exchange."""
    values = view.through_identity(slices.values)
    divisor: Optional[TensorRef] = None
    if view.op(values.node) in ("RealDiv", "Div"):
        numerator, divisor = view.inputs(values.node)
        if not is_one_number(view, divisor):
            return None
        values = view.through_identity(numerator)
    indices = view.through_identity(slices.indices)
    if view.op(indices.node) == "Cast":
        indices = view.through_identity(view.inputs(indices.node)[0])
    node = values.node
    if view.op(node) != EXCHANGE_SUMS:
        return None
    attributes, by_key = view.nodes[node].attr, view.attribute(node, "by_key")
    if attributes["T"].type != _FLOAT32 or (by_key is not None and any(by_key.list.b)):
        return None
    if values.index != attributes["num_shards"].i + indices.index or indices.node != node:
        return None
    received = ReceivedGradients(
        inputs=view.inputs(node)[:3],
        waits_for=tuple(view.controls(node)),
        names=tuple(name.decode("utf-8") for name in attributes["table_names"].list.s),
        widths=tuple(attributes["table_widths"].list.i),
        served=tuple(attributes["served"].list.i),
    )
    return TableGradient(received, indices.index, divisor)
