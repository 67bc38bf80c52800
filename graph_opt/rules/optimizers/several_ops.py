"""The end of an update that is written as several ops, each of which changes a variable."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, Sequence

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView

WRITES = frozenset(
    [
        *("Assign", "AssignVariableOp", "AssignSub", "AssignSubVariableOp"),
        *("ScatterAdd", "ResourceScatterAdd", "ScatterUpdate", "ResourceScatterUpdate"),
    ]
)


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
    nodes.update(dict.fromkeys(_unread(view, nodes)))
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
        outside = [user for user in users if user not in nodes]
        if outside:
            need = "an update that nothing else uses a part of"
            saw = "{} uses {}".format(outside[0], name)
            raise Refusal("lookup_differs", at=lasts[0], need=need, saw=saw)
    return ends[0]


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


def _unread(view: GraphView, nodes: Dict[str, None]) -> Iterator[str]:
    """Reads that a resource variable's change adds after itself, and whose value nothing uses."""
    for name in list(nodes):
        for waiting in view.control_uses(name):
            if _is_read(view, waiting):
                yield waiting


def _is_read(view: GraphView, name: str) -> bool:
    """Whether it is a read of a variable that others wait for at most."""
    if view.op(name) != "ReadVariableOp":
        return False
    return all(view.op(user) == "NoOp" for user in view.successors(name))
