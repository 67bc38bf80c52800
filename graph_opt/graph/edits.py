"""Collects the edits of a rewrite: what reads one tensor is to read another one."""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterable, List, Tuple

from graph_opt.graph.op_call import attribute_value
from graph_opt.graph.rewrite import AttributeEdit, ControlEdit, InputEdit, Rewrite
from graph_opt.graph.view import GraphView, TensorRef, Use


class Edits:
    """Edits of the edges of a graph. Of several edits of one data input the last one counts.

    Args:
      view: The graph.

    Example:
      >>> edits = Edits(view)
      >>> edits.replace(lookup.output, pooled)
      >>> edits.replace_waits(lookup.output.node, pooled.ref.node)
      >>> rewrite = edits.rewrite(writer.nodes)
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._inputs: Dict[Tuple[str, int], str] = {}
        self._controls: Dict[str, Dict[str, Tuple[str, ...]]] = {}
        self._added: Dict[str, Dict[str, None]] = {}
        self._attributes: List[AttributeEdit] = []
        self._replaced: Dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._inputs or self._controls or self._added or self._attributes)

    def replace(self, tensor: TensorRef, by: str) -> None:
        """Makes all that reads a tensor read `by`, spelled as in NodeDefs."""
        self._replaced[tensor.input_name] = by
        self.move(self._view.uses(tensor), by)

    def move(self, uses: Iterable[Use], to: str) -> None:
        """Makes some data inputs read `to`, spelled as in NodeDefs."""
        for use in uses:
            self.move_input(use.consumer, use.slot, to)

    def move_input(self, node: str, slot: int, to: str) -> None:
        """Makes data input `slot` of a node read `to`, spelled as in NodeDefs."""
        self._inputs[node, slot] = to

    def replace_waits(self, source: str, by: str) -> None:
        """Makes all that waits for node `source` wait for node `by`."""
        self._replaced["^" + source] = "^" + by
        for waiting in self._view.control_uses(source):
            self.move_wait(waiting, source, (by,))

    def move_wait(self, node: str, source: str, to: Iterable[str] = ()) -> None:
        """Makes a node wait for other nodes, or for none, instead of `source`."""
        self._controls.setdefault(node, {})[source] = tuple(to)

    def wait(self, node: str, for_node: str) -> None:
        """Makes a node wait for another one, too."""
        self._added.setdefault(node, {})[for_node] = None

    def set(self, node: str, key: str, value: Any) -> None:
        """Gives an attribute of a node another value, a plain one or an AttrValue."""
        self._attributes.append(AttributeEdit(node, key, attribute_value(value)))

    def apply_to_new(self, nodes: Iterable[Any]) -> None:
        """Moves the inputs of new NodeDefs, which were written with what is replaced."""
        for node in nodes:
            moved = [self._moved(text) for text in node.input]
            waits = dict.fromkeys(text for text in moved if text.startswith("^"))
            node.input[:] = [text for text in moved if not text.startswith("^")] + list(waits)

    def _moved(self, text: str) -> str:
        """An input after the rewrite: who waited for a tensor waits for what replaces it."""
        if text in self._replaced or not text.startswith("^"):
            return self._replaced.get(text, text)
        replaced = self._replaced.get(text[1:])
        return text if replaced is None else "^" + TensorRef.parse(replaced).node

    def rewrite(self, nodes: Iterable[Any] = ()) -> Rewrite:
        """These edits, with new nodes."""
        moved = (
            ControlEdit(
                node, tuple(instead), tuple(dict.fromkeys(itertools.chain(*instead.values())))
            )
            for node, instead in self._controls.items()
        )
        added = (ControlEdit(node, (), tuple(others)) for node, others in self._added.items())
        return Rewrite(
            tuple(nodes),
            tuple(InputEdit(node, slot, to) for (node, slot), to in self._inputs.items()),
            (*moved, *added),
            tuple(self._attributes),
        )
