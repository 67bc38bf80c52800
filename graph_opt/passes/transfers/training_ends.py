"""Which steps that train run a node."""

from __future__ import annotations

from typing import Dict

from graph_opt.compat.variable_ops import OF_ROWS, UPDATES, VariableUse, is_use
from graph_opt.graph.view import GraphView
from graph_opt.rules.op_names import ASSIGNS, GROUP_GATHERS, KEEP_BATCH, KEEP_SERVED

_UPDATES = UPDATES | {VariableUse.ACCUMULATES}
_READ = "ReadVariableOp"


def is_update(view: GraphView, name: str) -> bool:
    """Whether a node changes a variable or an accumulator, other than to initialize it."""
    op = view.op(name)
    return not is_initializer(view, name) if op in ASSIGNS else is_use(op, _UPDATES)


def updates_rows(view: GraphView, name: str) -> bool:
    """Whether an update changes only some rows of its variable."""
    op = view.op(name)
    return is_use(op, OF_ROWS) or op == "SparseAccumulatorApplyGradient"


def is_initializer(view: GraphView, name: str) -> bool:
    """Whether a node gives a variable its initial value; TensorFlow names it after the variable."""
    return view.op(name) in ASSIGNS and name == view.inputs(name)[0].node + "/Assign"


def _is_end(view: GraphView, name: str) -> bool:
    """Whether nothing waits for a node, and it is more than the value that an update returns.

    What keeps the answer of an update is run by sessions, beside whatever a step ends with.
    """
    if _is_kept(view, name) or not all(_is_kept(view, each) for each in view.successors(name)):
        return False
    if view.op(name) != _READ:
        return True
    controls = view.controls(name)
    updates = [each for each in controls if is_update(view, each)] or controls
    others = [each for update in updates for each in view.successors(update)]
    return all(view.op(each) == _READ for each in others)


def _is_kept(view: GraphView, name: str) -> bool:
    """Whether a node asks for or stores a server's reply to an update, for a later step."""
    if view.op(name) in GROUP_GATHERS:
        following = view.successors(name)
        return bool(following) and all(view.op(each) == KEEP_BATCH for each in following)
    return view.op(name) in (KEEP_SERVED, KEEP_BATCH)


def training_ends(view: GraphView) -> Dict[str, int]:
    """For each node, which of the ends of training steps depend on it; without an entry, none do.

    An end is a node that comes after an update and that nothing waits for, such as a train op. Each
    is one bit.
    """
    order = view.topological_order() or ()
    updates = [name for name in order if is_update(view, name)]
    ends = [name for name in view.descendants(updates) if _is_end(view, name)]
    masks = {name: 1 << number for number, name in enumerate(ends)}
    for name in reversed(order):
        mask = masks.get(name, 0)
        for following in view.successors(name):
            mask |= masks.get(following, 0)
        if mask:
            masks[name] = mask
    return masks
