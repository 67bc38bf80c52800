"""What updates have in common that are written as several ops, each of which changes a variable."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Sequence

from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import ANY, Pattern, one_of, op, tensor
from graph_opt.rules.match.table import find_read
from graph_opt.rules.op_names import ASSIGNS
from graph_opt.rules.optimizers.update_inputs import equals, rest_of_one, scalar

_SCATTERS = ("ScatterAdd", "ResourceScatterAdd")
WRITES = frozenset(
    [
        *(*ASSIGNS, "AssignSub", "AssignSubVariableOp"),
        *("ScatterAdd", "ResourceScatterAdd", "ScatterUpdate", "ResourceScatterUpdate"),
    ]
)


def decayed_slot(name: str, factor: str, gradient: Pattern, rows: Pattern) -> Pattern:
    """A slot after the step: all rows decayed, then the gradient's part added to its rows.

    Args:
      name: Binds the slot.
      factor: Binds the factor of the decay; the gradient's part has the rest of 1 as its factor.
      gradient: What is added, before that factor.
      rows: The rows to which it is added.
    """
    variable = tensor(name)
    rest = rest_of_one(tensor(factor + " of the rest"))
    decay = scalar(tensor(factor)).where(equals(factor + " of the rest"), "the gradient's factor")
    assigned = op(ASSIGNS, variable, op("Mul", old_value(name), decay))
    scattered = op(_SCATTERS, variable, rows, op("Mul", gradient, rest)).after(assigned)
    return one_of(op("ReadVariableOp", variable).after(scattered), scattered)


def old_value(name: str) -> Pattern:
    """The value of a variable before the update changes it; binds the variable if it is not."""

    def holds(match: Match, old: TensorRef) -> bool:
        view, found = match.view, find_read(match.view, old)
        if found is None:
            return False
        if found.control_flow is not None and view.op(found.control_flow) not in SWITCHES:
            return False
        match.note(match.tensors, name, TensorRef(found.variable, 0))
        held = find_read(view, match.tensors[name])
        if held is None or found.variable != held.variable:
            return False
        if view.op(old.node) == "ReadVariableOp":  # all readers of a reference share one read
            match.note(match.nodes, old.node, None)
        writers = {n for n in view.controls(old.node) if view.op(n) in WRITES}
        return not writers.intersection(match.nodes)

    return ANY.where(holds, "the value as it was before the step")


def end_of_several(view: GraphView, lasts: Sequence[str], nodes: Dict[str, None]) -> str:
    """The NoOp that waits for the whole update, if nothing else uses what the update writes.

    It may wait for more: whatever the train op was told to wait for.

    Args:
      view: The graph.
      lasts: The last node of each variable's change: the change, or a read that waits for it.
      nodes: The update's nodes, to which the NoOp and reads that nothing uses are added.

    Raises:
      Refusal: lookup_differs.
    """
    nodes.update(dict.fromkeys(unread_after(view, nodes)))
    waiting = [set(_waiting_for(view, last)) for last in lasts]
    ends = sorted(set.intersection(*waiting))
    if not ends:  # tf.group makes a NoOp for each device scope, and another that waits for them.
        waiting = [set(_no_ops_after(view, found)) for found in waiting]
        ends = sorted(set.intersection(*waiting))
    if len(ends) != 1:
        need = "one NoOp that waits for the update"
        raise Refusal("lookup_differs", at=lasts[0], need=need, saw=str(len(ends)))
    nodes.update(dict.fromkeys(_groups_before(view, ends[0], lasts)))
    nodes[ends[0]] = None
    for name in nodes:
        ends_part = view.op(name) in WRITES or (view.op(name) == "NoOp" and name != ends[0])
        users = view.successors(name) if ends_part else []
        outside = [user for user in users if user not in nodes and view.op(user) != "Const"]
        if outside:
            need = "an update that nothing else uses a part of"
            saw = "{} uses {}".format(outside[0], name)
            raise Refusal("lookup_differs", at=lasts[0], need=need, saw=saw)
    return ends[0]


def waiting_for_all(view: GraphView, writes: Sequence[str]) -> None:
    """Refuses several writes that are not always run together, or whose results are read.

    Raises:
      Refusal: lookup_differs.
    """
    for name in writes:
        readers = [use.consumer for _, use in view.node_uses(name)]
        if readers:
            need = "an update that nothing else uses a part of"
            saw = "{} uses {}".format(readers[0], name)
            raise Refusal("lookup_differs", at=name, need=need, saw=saw)
        waiting = set(_waiting_for(view, name))
        if not waiting or waiting != set(_waiting_for(view, writes[0])):
            need = "assignments that the same ops wait for"
            saw = "others that wait for {}".format(writes[0])
            raise Refusal("lookup_differs", at=name, need=need, saw=saw)


def _waiting_for(view: GraphView, last: str) -> Iterator[str]:
    """NoOps that wait for a node, or for a read that waits for it."""
    for name in view.control_uses(last):
        if view.op(name) == "NoOp":
            yield name
        elif _is_read(view, name):
            yield from _no_ops_after(view, [name])


def _no_ops_after(view: GraphView, names: Iterable[str]) -> Iterator[str]:
    """NoOps that wait for any of these nodes."""
    for name in names:
        yield from (after for after in view.control_uses(name) if view.op(after) == "NoOp")


def _groups_before(view: GraphView, end: str, lasts: Sequence[str]) -> Iterator[str]:
    """NoOps between the last nodes of an update and its end."""
    for last in lasts:
        for name in _waiting_for(view, last):
            if name != end and end in view.control_uses(name):
                yield name


def unread_after(view: GraphView, writes: Iterable[str]) -> List[str]:
    """Reads that a resource variable's change adds after itself, and whose value nothing uses."""
    return [
        waiting for name in writes for waiting in view.control_uses(name) if _is_read(view, waiting)
    ]


def _is_read(view: GraphView, name: str) -> bool:
    """Whether it is a read of a variable that others wait for at most."""
    if view.op(name) != "ReadVariableOp":
        return False
    return all(view.op(user) == "NoOp" for user in view.successors(name))
