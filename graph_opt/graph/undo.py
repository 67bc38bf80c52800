"""Undoes rewrites: turns the graph that runs back into the graph that the user built.

Nodes added in the meantime (savers, summaries, an export) stay, and read the user's tensors in
place of the ones that the rewrites added.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import AbstractSet, Any, Dict, FrozenSet, Iterable, List, NamedTuple, Set, Tuple

from graph_opt.compat import tf
from graph_opt.graph.rewrite import AttributeEdit, ControlEdit, InputEdit, Rewrite
from graph_opt.graph.view import TensorRef

_CLASS = "_class"


class MovedInput(NamedTuple):
    """Data input `slot` of node `node`, which was moved from `before` to `after`."""

    node: str
    slot: int
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class Undo:
    """What a sequence of rewrites changed, and how to change it back.

    Attributes:
      added: Names of the nodes that they added.
      inputs: Data edges that they moved, in order.
      controls: Control edges that they moved, in order; only those that were actually removed and
        added.
      attributes: Attributes that they set, with their values before.
    """

    added: FrozenSet[str]
    inputs: Tuple[MovedInput, ...]
    controls: Tuple[ControlEdit, ...]
    attributes: Tuple[AttributeEdit, ...] = ()

    def apply(self, graph_def: Any) -> FrozenSet[str]:
        """Turns a rewritten GraphDef, possibly with nodes added since, back into the user's.

        Args:
          graph_def: The GraphDef; it is changed in place.

        Returns:
          Names of the rewrites' nodes that had to stay because other nodes read them and no tensor
          of the user's graph has their values.
        """
        nodes = {node.name: node for node in graph_def.node}
        self._restore_inputs(nodes)
        self._restore_controls(nodes)
        self._restore_attributes(nodes)
        readers = self._possible_readers(nodes)
        self._redirect(readers)
        needed = _needed(nodes, readers, self.added)
        remove_nodes(graph_def, self.added - needed)
        return needed

    def _restore_inputs(self, nodes: Dict[str, Any]) -> None:
        for edit in reversed(self.inputs):
            node = nodes.get(edit.node)
            if node is None or edit.slot >= len(node.input):
                continue
            if _canonical(node.input[edit.slot]) == edit.after:
                node.input[edit.slot] = edit.before

    def _restore_controls(self, nodes: Dict[str, Any]) -> None:
        for edit in reversed(self.controls):
            if edit.node in nodes:
                back = ControlEdit(edit.node, removed=edit.added, added=edit.removed)
                set_controls(nodes[edit.node], back)

    def _restore_attributes(self, nodes: Dict[str, Any]) -> None:
        for edit in self.attributes:
            if edit.node in nodes and edit.key in nodes[edit.node].attr:
                nodes[edit.node].attr[edit.key].CopyFrom(edit.value)

    def _possible_readers(self, nodes: Dict[str, Any]) -> List[Any]:
        """Nodes that may read a rewrite's node: those that were edited, and those added since."""
        edited = [edit.node for edit in self.inputs] + [edit.node for edit in self.controls]
        since = itertools.dropwhile(lambda name: name not in self.added, nodes)
        names = dict.fromkeys([*edited, *since])
        return [nodes[name] for name in names if name in nodes and name not in self.added]

    def _redirect(self, readers: Iterable[Any]) -> None:
        """Makes nodes read the user's tensors in place of the rewrites'."""
        tensors = self._originals()
        waits = self._original_waits(tensors)
        for node in readers:
            _drop_colocation(node, self.added)
            if not any(node_of_input(text) in self.added for text in node.input):
                continue
            data = [t for t in node.input if not t.startswith("^")]
            controls = [t[1:] for t in node.input if t.startswith("^")]
            data = [tensors.get(_canonical(text), text) for text in data]
            redirected = [waits.get(source, (source,)) for source in controls]
            _set_inputs(node, data, [source for sources in redirected for source in sources])

    def _originals(self) -> Dict[str, str]:
        """Maps tensors of the rewrites to the user's tensors that they replaced."""
        before = {edit.after: edit.before for edit in self.inputs}
        found: Dict[str, str] = {}
        for after in before:
            text = after
            while text in before and node_of_input(text) in self.added:
                text = before[text]
            if node_of_input(text) not in self.added:
                found[after] = text
        return found

    def _original_waits(self, tensors: Dict[str, str]) -> Dict[str, Tuple[str, ...]]:
        """Maps nodes of the rewrites to the user's nodes whose control edges they replaced."""
        waits: Dict[str, Tuple[str, ...]] = {}
        waits.update(
            {node_of_input(after): (node_of_input(before),) for after, before in tensors.items()}
        )
        for edit in self.controls:
            removed = tuple(name for name in edit.removed if name not in self.added)
            if removed:
                waits.update((name, removed) for name in edit.added if name in self.added)
        return waits


def undo_of(graph_def: Any, rewrites: Iterable[Rewrite]) -> Undo:
    """Returns what undoes these rewrites of a graph.

    Args:
      graph_def: The graph before the rewrites; it is not changed.
      rewrites: In the order in which they are applied.
    """
    rewrites = tuple(rewrites)
    edited = {name for rewrite in rewrites for name in rewrite.edited}
    nodes = {node.name: node for node in graph_def.node if node.name in edited}
    data = {name: _data_inputs(node) for name, node in nodes.items()}
    waits = {name: _control_inputs(node) for name, node in nodes.items()}
    added: Set[str] = set()
    inputs: List[MovedInput] = []
    controls: List[ControlEdit] = []
    attributes: Dict[Tuple[str, str], AttributeEdit] = {}
    for rewrite in rewrites:
        for node in rewrite.nodes:
            added.add(node.name)
            if node.name in edited:
                data[node.name], waits[node.name] = _data_inputs(node), _control_inputs(node)
        inputs.extend(_moved(edit, data[edit.node]) for edit in rewrite.inputs)
        controls.extend(_effective(edit, waits) for edit in rewrite.controls)
        for change in rewrite.attributes:
            if change.node in nodes and change.key in nodes[change.node].attr:
                was = tf.AttrValue()
                was.CopyFrom(nodes[change.node].attr[change.key])
                key = change.node, change.key
                attributes.setdefault(key, AttributeEdit(change.node, change.key, was))
    return Undo(frozenset(added), tuple(inputs), tuple(controls), tuple(attributes.values()))


def set_controls(node: Any, edit: ControlEdit) -> None:
    """Edits a NodeDef's control inputs, in the order in which TensorFlow writes them."""
    _set_inputs(node, _data_inputs(node), edit.apply(_control_inputs(node)))


def _moved(edit: InputEdit, inputs: List[str]) -> MovedInput:
    before, inputs[edit.slot] = inputs[edit.slot], _canonical(edit.tensor)
    return MovedInput(edit.node, edit.slot, _canonical(before), inputs[edit.slot])


def _effective(edit: ControlEdit, waits: Dict[str, List[str]]) -> ControlEdit:
    before = waits[edit.node]
    after = list(edit.apply(before))
    waits[edit.node] = after
    return ControlEdit(
        edit.node,
        removed=tuple(name for name in before if name not in after),
        added=tuple(name for name in after if name not in before),
    )


def _needed(
    nodes: Dict[str, Any], readers: Iterable[Any], added: AbstractSet[str]
) -> FrozenSet[str]:
    """Added nodes that the readers depend on."""
    waiting = [node_of_input(text) for node in readers for text in node.input]
    needed: Set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in added and name not in needed and name in nodes:
            needed.add(name)
            waiting.extend(node_of_input(text) for text in nodes[name].input)
    return frozenset(needed)


def node_of_input(text: str) -> str:
    """The node that an input of a NodeDef names: `node`, `node:index` or `^node`.

    Example:
      >>> node_of_input("^a/b")
      'a/b'
    """
    return text[1:] if text[0] == "^" else text.partition(":")[0]


def remove_nodes(graph_def: Any, names: AbstractSet[str]) -> None:
    """Deletes nodes from a GraphDef, run by run: the nodes of a rewrite are consecutive."""
    stop = None
    for place in range(len(graph_def.node) - 1, -2, -1):
        gone = place >= 0 and graph_def.node[place].name in names
        if gone and stop is None:
            stop = place + 1
        elif not gone and stop is not None:
            del graph_def.node[place + 1 : stop]
            stop = None


def _set_inputs(node: Any, data: Iterable[str], controls: Iterable[str]) -> None:
    texts = list(data) + sorted("^" + source for source in set(controls))
    del node.input[:]
    node.input.extend(texts)


def _drop_colocation(node: Any, gone: AbstractSet[str]) -> None:
    """Drops a node's colocation with nodes that are to be removed."""
    if _CLASS not in node.attr:
        return
    groups = node.attr[_CLASS].list.s
    kept = [group for group in groups if group.decode("utf-8").partition("@")[2] not in gone]
    if len(kept) < len(groups):
        groups[:] = kept


def _data_inputs(node: Any) -> List[str]:
    return [text for text in node.input if not text.startswith("^")]


def _control_inputs(node: Any) -> List[str]:
    return [text[1:] for text in node.input if text.startswith("^")]


def _canonical(text: str) -> str:
    return TensorRef.parse(text).input_name
