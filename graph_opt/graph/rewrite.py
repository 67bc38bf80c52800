"""A change to a graph, as data: nodes to add, edges to move, attributes to set.

`apply_to_graph_def` applies it to a GraphDef; `graph_opt.session` applies the same object to a live
`tf.Graph`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, Iterable, Mapping, Tuple

from graph_opt.compat import tf

OUTPUT_SHAPES = "_output_shapes"
"""The attribute in which GraphDefs have static shapes."""


@dataclasses.dataclass(frozen=True)
class InputEdit:
    """Makes data input `slot` of node `node` read `tensor` (`name` or `name:index`)."""

    node: str
    slot: int
    tensor: str


@dataclasses.dataclass(frozen=True)
class ControlEdit:
    """Makes `node` wait for `added` instead of `removed`; several edits to a node accumulate."""

    node: str
    removed: Tuple[str, ...]
    added: Tuple[str, ...]

    def apply(self, sources: Iterable[str]) -> Tuple[str, ...]:
        """The control inputs after the edit, given those before it."""
        kept = [source for source in sources if source not in self.removed]
        return tuple(dict.fromkeys(kept + list(self.added)))


@dataclasses.dataclass(frozen=True)
class AttributeEdit:
    """Gives attribute `key` of node `node` the value `value`, an AttrValue.

    Attributes are the one thing of a user's node that a rewrite changes; exports have them as they
    were.
    """

    node: str
    key: str
    value: Any


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """Nodes to add, then edges to move. Nothing is ever removed: every tensor keeps its name.

    Attributes:
      nodes: NodeDefs to add; their inputs are among them or in the graph.
      inputs: Data edges to move.
      controls: Control edges to move.
      attributes: Attributes to set.
    """

    nodes: Tuple[Any, ...] = ()
    inputs: Tuple[InputEdit, ...] = ()
    controls: Tuple[ControlEdit, ...] = ()
    attributes: Tuple[AttributeEdit, ...] = ()

    @property
    def edited(self) -> FrozenSet[str]:
        """Names of the nodes that change."""
        moved = [edit.node for edit in self.inputs]
        waiting = [edit.node for edit in self.controls]
        return frozenset(moved + waiting + [edit.node for edit in self.attributes])

    def __bool__(self) -> bool:
        return bool(self.nodes or self.inputs or self.controls or self.attributes)


def apply_to_graph_def(graph_def: Any, *rewrites: Rewrite) -> Any:
    """Returns a new GraphDef with the rewrites applied in order; the argument is not changed.

    Raises:
      ValueError: An edit names a node or an input that the graph does not have.
    """
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    edited = frozenset().union(*(rewrite.edited for rewrite in rewrites))
    nodes = {node.name: node for node in result.node if node.name in edited}
    for rewrite in rewrites:
        _edit(nodes, rewrite)
        before = len(result.node)
        result.node.extend(rewrite.nodes)
        added = result.node[before:]
        nodes.update((node.name, node) for node in added if node.name in edited)
    return result


def edited_nodes(nodes: Mapping[str, Any], rewrite: Rewrite) -> Dict[str, Any]:
    """Returns copies of the nodes that a rewrite edits, with the edits applied.

    Args:
      nodes: NodeDefs of the graph by name.
      rewrite: The rewrite.

    Raises:
      ValueError: An edit names a node or an input that the graph does not have.
    """
    edited: Dict[str, Any] = {}
    for name in rewrite.edited.intersection(nodes):
        edited[name] = tf.NodeDef()
        edited[name].CopyFrom(nodes[name])
    _edit(edited, rewrite)
    return edited


def _edit(nodes: Mapping[str, Any], rewrite: Rewrite) -> None:
    missing = sorted(rewrite.edited.difference(nodes))
    if missing:
        raise ValueError("the rewrite edits '{}', which the graph lacks".format(missing[0]))
    for edit in rewrite.inputs:
        _set_input(nodes[edit.node], edit)
    for control in rewrite.controls:
        _set_controls(nodes[control.node], control)
    for attribute in rewrite.attributes:
        nodes[attribute.node].attr[attribute.key].CopyFrom(attribute.value)


def _set_input(node: Any, edit: InputEdit) -> None:
    if edit.slot >= len(node.input) or node.input[edit.slot].startswith("^"):
        raise ValueError("node '{}' has no data input {}".format(edit.node, edit.slot))
    node.input[edit.slot] = edit.tensor


def _set_controls(node: Any, edit: ControlEdit) -> None:
    data = [text for text in node.input if not text.startswith("^")]
    controls = [text[1:] for text in node.input if text.startswith("^")]
    del node.input[:]
    node.input.extend(data + ["^" + source for source in edit.apply(controls)])
