"""Nodes that a step may skip, or run several times: those inside of `tf.cond` and of loops.

Each node has the set of conditions under which it runs. A Switch adds one to what reads it, a Merge
keeps those that all of its inputs have, and an Exit drops those of its loop:

    x ─> Switch(p) ─{p}──> true branch  {p} ─┐
                  ─{!p}─> false branch {!p} ─┴─> Merge {} ─> ...

Functional `tf.cond` and `tf.while_loop` hide their insides in functions.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Tuple

from graph_opt.graph.control_flow_ops import ENTERS, EXITS, MERGES, SWITCHES
from graph_opt.graph.view import GraphView

# A predicate and which of its branches, or a loop's frame.
Condition = Tuple[str, int]
Conditions = FrozenSet[Condition]

_ALWAYS: Conditions = frozenset()
_FRAME = -1


def sometimes_run(view: GraphView) -> FrozenSet[str]:
    """The nodes inside of `tf.cond` and `tf.while_loop` in the style of TensorFlow 1."""
    if not view.of_op(*SWITCHES, *ENTERS):
        return frozenset()
    return frozenset(name for name, found in _Search(view).conditions.items() if found)


class _Search:
    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._depth: Dict[str, int] = {}
        self.conditions: Dict[str, Conditions] = {}
        for name in view.topological_order() or ():
            self.conditions[name] = self._of(name)

    def _of(self, name: str) -> Conditions:
        view = self._view
        op = view.op(name)
        inputs = self._of_inputs(name)
        if op in MERGES:
            return _ALWAYS.union(inputs[0].intersection(*inputs[1:])) if inputs else _ALWAYS
        inputs += [self.conditions[control] for control in view.controls(name)]
        found = _ALWAYS.union(*inputs) if any(inputs) else _ALWAYS
        if op in ENTERS:
            return self._within(name, found)
        return self._outside(found) if op in EXITS else found

    def _of_inputs(self, name: str) -> List[Conditions]:
        view = self._view
        found: List[Conditions] = []
        for tensor in view.inputs(name):
            if tensor.node not in self.conditions:
                continue  # A loop's back edge.
            conditions = self.conditions[tensor.node]
            if view.op(tensor.node) in SWITCHES:
                predicate = view.through_identity(view.inputs(tensor.node)[1])
                conditions = conditions | {(predicate.node, tensor.index)}
            found.append(conditions)
        return found

    def _within(self, name: str, conditions: Conditions) -> Conditions:
        """What holds behind an Enter."""
        attribute = self._view.attribute(name, "frame_name")
        frame = name if attribute is None else attribute.s.decode()
        self._depth[frame] = 1 + sum(kind == _FRAME for _, kind in conditions)
        return conditions | {(frame, _FRAME)}

    def _outside(self, conditions: Conditions) -> Conditions:
        """What holds behind an Exit: nothing that the innermost loop adds."""
        frames = [each for each in conditions if each[1] == _FRAME]
        left = max(frames, key=lambda each: self._depth[each[0]], default=None)
        return frozenset(
            each
            for each in conditions
            if each != left and (each[1] == _FRAME or left not in self.conditions[each[0]])
        )
