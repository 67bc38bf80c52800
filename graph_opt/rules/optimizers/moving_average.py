"""Averages of a table over time, as `tf.train.ExponentialMovingAverage` writes them.

    average, table -> Sub -> Mul(rate) -> AssignSub(average)

The rate is what is left of 1 without the decay. Such a step moves every row of the average.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Iterator, List, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.table import describe, find_read
from graph_opt.rules.op_names import VARIABLES, WHOLE_READS
from graph_opt.rules.optimizers.update_inputs import Hyperparameter, hyperparameter, is_scalar

_ASSIGN_SUB = ("AssignSub", "AssignSubVariableOp")
_CODE = "average_not_deferrable"


@dataclasses.dataclass(frozen=True)
class MovingAverage:
    """The step of one table's average.

    Attributes:
      table: Name of the variable.
      average: Name of the variable that keeps the average.
      rate: The value of a constant, or a tensor.
      end: The node after which the average has moved.
      readers: The nodes that read the values of both variables.
      nodes: All nodes of the step, including `end`.
      controls: Other nodes that it waits for.
    """

    table: str
    average: str
    rate: Hyperparameter
    end: str
    readers: Tuple[str, ...]
    nodes: Tuple[str, ...]
    controls: Tuple[str, ...]


def moving_averages(view: GraphView, table: str) -> List[str]:
    """The assignments that move averages of a table."""
    found: Dict[str, None] = {}
    for value in _values(view, table):
        for use in view.uses(value):
            if view.op(use.consumer) == "Sub" and use.slot == 1:
                found.update(dict.fromkeys(_assignments_of(view, use.consumer)))
    return list(found)


def read_average(view: GraphView, table: str, end: str) -> MovingAverage:
    """Reads the step that ends with an assignment of `moving_averages`.

    Raises:
      Refusal: average_not_deferrable.
    """
    scaled = view.inputs(end)[1]
    difference, rate = view.inputs(scaled.node)
    own = find_read(view, view.inputs(end)[0])
    reads = [find_read(view, tensor) for tensor in view.inputs(difference.node)]
    if own is None or reads[0] is None or reads[0].variable != own.variable:
        raise refusal(end, "an average that moves by its own distance from the table", "another")
    if any(read is None or read.control_flow is not None for read in (own, *reads)):
        raise refusal(end, "an average outside of tf.cond and tf.while_loop", "one inside")
    if _kind(view, own.variable) != _kind(view, table):
        need = "an average of the shape, dtype and kind of {}".format(table)
        raise refusal(own.variable, need, "another")
    if not is_scalar(view, rate):
        raise refusal(rate.node, "a scalar decay", "shape {}".format(view.shape(rate)))
    nodes: Dict[str, None] = dict.fromkeys([end, scaled.node, difference.node])
    readers = [tensor.node for tensor in view.inputs(difference.node)]
    if view.op(own.variable) != "VarHandleOp":
        readers = [difference.node]
    nodes.update(dict.fromkeys(readers))
    _require_own(view, nodes, end)
    controls = _require_one_moment(view, nodes, readers, end)
    return MovingAverage(
        table=table,
        average=own.variable,
        rate=hyperparameter(view, rate),
        end=end,
        readers=tuple(readers),
        nodes=tuple(nodes),
        controls=tuple(sorted(controls)),
    )


def refusal(at: str, need: str, saw: str) -> Refusal:
    """Why an average stays as TensorFlow moves it."""
    return Refusal(_CODE, at=at, need=need, saw=saw)


def _values(view: GraphView, table: str) -> Iterator[TensorRef]:
    """The tensors with a variable's whole value."""
    pending = [TensorRef(table, 0)]
    while pending:
        tensor = pending.pop()
        if view.op(tensor.node) not in VARIABLES:
            yield tensor
        for use in view.uses(tensor):
            if use.slot == 0 and view.op(use.consumer) in WHOLE_READS:
                pending.append(TensorRef(use.consumer, 0))


def _assignments_of(view: GraphView, difference: str) -> Iterator[str]:
    for _, scaled in view.node_uses(difference):
        if view.op(scaled.consumer) != "Mul" or scaled.slot != 0:
            continue
        for _, use in view.node_uses(scaled.consumer):
            if view.op(use.consumer) in _ASSIGN_SUB and use.slot == 1:
                yield use.consumer


def _kind(view: GraphView, variable: str) -> Tuple[object, ...]:
    table = describe(view, variable)
    return table.shape, table.dtype, table.is_resource, view.device(variable)


def _require_own(view: GraphView, nodes: Dict[str, None], end: str) -> None:
    """Refuses steps of which something else uses a result."""
    for name in nodes:
        for _, use in view.node_uses(name):
            if use.consumer not in nodes:
                saw = "{} reads {}".format(use.consumer, name)
                raise refusal(end, "an average whose step nothing reads a part of", saw)


def _require_one_moment(
    view: GraphView, nodes: Dict[str, None], readers: List[str], end: str
) -> Set[str]:
    """What the step waits for. Values that are read before, without waiting, are others."""
    waits = {source for name in nodes for source in view.controls(name) if source not in nodes}
    for reader in readers:
        if not waits.issubset(view.controls(reader)):
            need = "an average that is read, with its table, after all that its step waits for"
            raise refusal(end, need, "{} waits for less".format(reader))
    return waits
