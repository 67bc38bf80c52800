"""What a graph does with a variable as a whole, besides looking rows up and updating them.

initial value, RestoreV2, ...                  -> Assign      each rank takes its rows
the variable -> HorovodBroadcast               -> Assign      every rank has rows of its own
the variable                                   -> SaveV2      of a part would not be the table
the variable                                   -> Shape       the table's
the variable                                   -> all else    needs rows of other ranks
"""

from __future__ import annotations

from typing import AbstractSet, List, NamedTuple, Optional, Set, Tuple

from graph_opt.compat.variable_ops import VariableUse, is_use
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.rules.op_names import ASSIGNS, PASS_ON, WHOLE_READS

_BROADCASTS = ("HorovodBroadcast",)
_SAVES = ("SaveV2", "SaveSlices", "Save")
_RESTORES = ("RestoreV2", "RestoreSlice", "Restore")
_ASKS_NO_ROWS = frozenset([VariableUse.ASKS, VariableUse.ENDS])
_SHAPES = ("Shape", "VariableShape", "Size", "Rank")
# What reads and writes rows by key (sharding.keyed_rows) is added under this scope.
_OURS = "graph_opt/rows/"


class Assignment(NamedTuple):
    """What sets a variable's whole value.

    Attributes:
      node: The Assign.
      value: What it assigns.
      is_broadcast: Whether that is the value that the variable has on another rank.
    """

    node: str
    value: TensorRef
    is_broadcast: bool


class VariableUses(NamedTuple):
    """What reads or writes a variable as a whole.

    Attributes:
      values: Tensors with its whole value, or a reference to it.
      assignments: What sets it from elsewhere, but from a checkpoint.
      shapes: Nodes that ask for its shape.
      others: All other uses.
    """

    values: Tuple[TensorRef, ...]
    assignments: Tuple[Assignment, ...]
    shapes: Tuple[str, ...]
    others: Tuple[Use, ...]


def variable_uses(
    view: GraphView,
    variable: str,
    known: AbstractSet[str] = frozenset(),
    only: Optional[AbstractSet[str]] = None,
) -> VariableUses:
    """Finds them.

    Args:
      view: The graph.
      variable: Name of the variable's op.
      known: Nodes that look its rows up or update them.
      only: Nodes to look at; None for all.
    """
    values: List[TensorRef] = [TensorRef(variable, 0)]
    seen: Set[TensorRef] = set(values)
    found = VariableUses((), (), (), ())
    for tensor in values:
        for use in view.uses(tensor):
            name, op = use.consumer, view.op(use.consumer)
            passed = _passed_on(view, use)
            if passed is not None and passed not in seen:
                seen.add(passed)
                values.append(passed)
            if name in known or name.startswith(_OURS) or (only is not None and name not in only):
                continue
            needs_rows = op in _SHAPES or not is_use(op, _ASKS_NO_ROWS)
            if op not in WHOLE_READS and needs_rows:
                found = _with_use(view, variable, found, use)
    shown = [one for one in values if only is None or one.node in only]
    return found._replace(values=tuple(shown))


def _passed_on(view: GraphView, use: Use) -> Optional[TensorRef]:
    """The output of a node that has the whole value, too."""
    op = view.op(use.consumer)
    if use.slot == 0 and (op in WHOLE_READS or op == "Assign"):
        return TensorRef(use.consumer, 0)
    return None


def _with_use(view: GraphView, variable: str, found: VariableUses, use: Use) -> VariableUses:
    name, op = use.consumer, view.op(use.consumer)
    if op in ASSIGNS and use.slot == 0:
        value = view.inputs(name)[1]
        if _is_restored(view, value):
            return found
        if _is_broadcast(view, variable, value):
            assignment = Assignment(name, value, is_broadcast=True)
            return found._replace(assignments=(*found.assignments, assignment))
        if not _depends_on(view, variable, value):
            assignment = Assignment(name, value, is_broadcast=False)
            return found._replace(assignments=(*found.assignments, assignment))
    elif op in _SAVES:
        return found
    elif op in _SHAPES:
        return found._replace(shapes=(*found.shapes, name))
    elif op in _BROADCASTS and _is_assigned_only(view, variable, name):
        return found
    return found._replace(others=(*found.others, use))


def _is_restored(view: GraphView, value: TensorRef) -> bool:
    """Whether a value comes from a checkpoint."""
    source = view.through_identity(value)
    while view.op(source.node) == "Reshape":
        source = view.through_identity(view.inputs(source.node)[0])
    return view.op(source.node) in _RESTORES


def _is_broadcast(view: GraphView, variable: str, value: TensorRef) -> bool:
    """Whether a value is the variable's own on some rank."""
    source = view.through_identity(value)
    return view.op(source.node) in _BROADCASTS and _is_value(
        view, variable, view.inputs(source.node)[0]
    )


def _is_value(view: GraphView, variable: str, tensor: TensorRef) -> bool:
    while tensor.node != variable:
        if view.op(tensor.node) not in WHOLE_READS:
            return False
        tensor = view.inputs(tensor.node)[0]
    return True


def _is_assigned_only(view: GraphView, variable: str, broadcast: str) -> bool:
    """Whether nothing but the variable gets what is broadcast."""
    waiting = [broadcast]
    while waiting:
        for _, use in view.node_uses(waiting.pop()):
            if view.op(use.consumer) in PASS_ON:
                waiting.append(use.consumer)
            elif view.op(use.consumer) not in ASSIGNS or use.slot != 1:
                return False
            elif not _is_value(view, variable, view.inputs(use.consumer)[0]):
                return False
    return True


def _depends_on(view: GraphView, variable: str, value: TensorRef) -> bool:
    """Whether a value is computed from the variable."""
    waiting, seen = [value.node], {value.node}
    while waiting:
        name = waiting.pop()
        if name == variable:
            return True
        for tensor in view.inputs(name):
            if tensor.node not in seen:
                seen.add(tensor.node)
                waiting.append(tensor.node)
    return False
