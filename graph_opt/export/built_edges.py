"""What the operations of a rewritten live graph read and wait for as their user built them."""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

from graph_opt.export.users_graph import undos_of
from graph_opt.graph.operations import Edges


class BuiltEdges(Edges):
    """The edges of a live graph before rewrites moved them.

    Args:
      graph: The graph; edges that later rewrites move are not known.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._inputs: Dict[Tuple[str, int], str] = {}
        self._controls: Dict[str, List[Any]] = {}
        self._added: Set[str] = set()
        for undo in reversed(undos_of(graph)):
            self._inputs.update(((one.node, one.slot), one.before) for one in reversed(undo.inputs))
            self._added.update(undo.added)
            for edit in reversed(undo.controls):
                self._controls.setdefault(edit.node, []).append(edit)

    def has(self, operation: Any) -> bool:
        """Whether an operation is the user's, and not one that a rewrite has added."""
        return operation.name not in self._added

    def inputs(self, operation: Any) -> List[Any]:
        """The tensors that an operation reads."""
        moved = [
            (slot, self._inputs[operation.name, slot])
            for slot in range(len(operation.inputs))
            if (operation.name, slot) in self._inputs
        ]
        tensors = list(operation.inputs)
        for slot, name in moved:
            tensors[slot] = self._graph.get_tensor_by_name(name if ":" in name else name + ":0")
        return tensors

    def controls(self, operation: Any) -> List[Any]:
        """The operations that it waits for."""
        edits = self._controls.get(operation.name)
        if not edits:
            return list(operation.control_inputs)
        names = [source.name for source in operation.control_inputs]
        for edit in edits:
            names = [name for name in names if name not in edit.added] + list(edit.removed)
        return [self._graph.get_operation_by_name(name) for name in names]
