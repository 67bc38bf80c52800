"""Copies of the nodes of a step that depend on nodes which are left out of it, or replaced."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

from graph_opt.compat import tf
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.live_graph import add_nodes

SCOPE = "graph_opt/savers"


class StepCopies:
    """Copies of the nodes that depend on some that are left out or replaced.

    Args:
      graph: The graph, to which they are added.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        numbers: List[int] = kept_with(graph, "savers without tables", list)
        self._number = len(numbers)
        numbers.append(self._number)
        self._tensors: Dict[str, Any] = {}
        self._dropped: Set[str] = set()
        self._copied: Dict[str, str] = {}

    def drop(self, operation: Any) -> None:
        """Leaves an operation out."""
        self._dropped.add(operation.name)

    def replace(self, operation: Any, tensors: Dict[int, Any]) -> None:
        """Takes other tensors for some outputs of an operation, and leaves out the others."""
        self._dropped.add(operation.name)
        for place, tensor in tensors.items():
            self._tensors[operation.outputs[place].name] = tensor

    def copy_dependents(self, reached: Set[Any]) -> None:
        """Copies what depends on them."""
        nodes = []
        for operation in _in_order(reached):
            if operation.name in self._dropped or not self._is_touched(operation):
                continue
            if any(self._is_gone(tensor) for tensor in operation.inputs):
                self._dropped.add(operation.name)
                continue
            nodes.append(self._copy(operation))
            self._copied[operation.name] = nodes[-1].name
        add_nodes(self._graph, nodes)

    def tensor(self, tensor: Any) -> Any:
        """What stands for a tensor."""
        if tensor.name in self._tensors:
            return self._tensors[tensor.name]
        copied = self._copied.get(tensor.op.name)
        if copied is None:
            return tensor
        return self._graph.get_tensor_by_name("{}:{}".format(copied, tensor.value_index))

    def operation(self, operation: Any) -> Optional[Any]:
        """What stands for an operation; None if it is left out."""
        if operation.name in self._dropped:
            return None
        copied = self._copied.get(operation.name)
        return operation if copied is None else self._graph.get_operation_by_name(copied)

    def _is_touched(self, operation: Any) -> bool:
        before = [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
        return any(one.name in self._dropped or one.name in self._copied for one in before)

    def _is_gone(self, tensor: Any) -> bool:
        return tensor.op.name in self._dropped and tensor.name not in self._tensors

    def _copy(self, operation: Any) -> Any:
        node = tf.NodeDef()
        node.CopyFrom(operation.node_def)
        node.name = "{}/{}/{}".format(SCOPE, self._number, operation.name)
        del node.input[:]
        node.input.extend(self._input(tensor) for tensor in operation.inputs)
        for control in operation.control_inputs:
            if control.name not in self._dropped:
                node.input.append("^" + self._copied.get(control.name, control.name))
        return node

    def _input(self, tensor: Any) -> str:
        if tensor.name in self._tensors:
            return input_text(self._tensors[tensor.name])
        name = self._copied.get(tensor.op.name, tensor.op.name)
        return "{}:{}".format(name, tensor.value_index) if tensor.value_index else str(name)


def _in_order(operations: Set[Any]) -> List[Any]:
    """Each after all that it depends on."""
    ordered: List[Any] = []
    seen: Set[Any] = set()
    for start in sorted(operations, key=lambda operation: str(operation.name)):
        waiting = [(start, False)]
        while waiting:
            operation, is_done = waiting.pop()
            if is_done:
                ordered.append(operation)
            elif operation not in seen and operation in operations:
                seen.add(operation)
                waiting.append((operation, True))
                before = [tensor.op for tensor in operation.inputs]
                waiting.extend((one, False) for one in before + list(operation.control_inputs))
    return ordered


def input_text(tensor: Any) -> str:
    """What a NodeDef calls a tensor."""
    return str(tensor.name[:-2] if tensor.name.endswith(":0") else tensor.name)
