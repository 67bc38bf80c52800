"""Copies of what rewrites have changed, as the user built it, to be run beside the rewritten nodes.

    rewritten   stage's source ──> lookups ahead ──> take ──> layers ──> loss, updates
    copy        copy of that source ──> lookups ──> layers ──> loss, updates

Nodes whose inputs no rewrite has touched, directly or through others, are shared: variables,
placeholders, iterators. Loops are copied as a whole, with their counters and arrays. The copy of
the source reads batches from where the stage does; it runs only once steps no longer take from the
stage, and is fed what main has taken until then.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import HANDLES, VARIABLES
from graph_opt.graph.control_flow_ops import ENTERS
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.control_flow import loops_of

SCOPE = "graph_opt_stock"
_STATE = "'{}' itself was changed, and tables and variables cannot be there twice"
_NOT_TAKEN = "'{}' of the batch does not reach main, which '{}' needs"
_CLASS, _FRAME = "_class", "frame_name"
# Made anew in each step, so that two loops of a step must not fill the same.
_OF_ONE_STEP = frozenset(["TensorArray", "TensorArrayV2", "TensorArrayV3", "Stack", "StackV2"])


class CannotCopy(Exception):
    """A rewritten graph cannot be run as it was built; the text says why."""


@dataclasses.dataclass(frozen=True)
class StockNames:
    """What stands for the user's nodes in copies that no rewrite has changed.

    Attributes:
      nodes: Maps nodes to their copies; all others are shared.
      batches: Maps tensors of batches to those of the copied sources.
    """

    nodes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    batches: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def tensor(self, name: str) -> str:
        """The tensor, as `node:index`, that has the value of a user's tensor."""
        if name in self.batches:
            return self.batches[name]
        node, _, index = name.partition(":")
        return "{}:{}".format(self.nodes[node], index) if node in self.nodes else name


def stock_copy(
    built: Any, running: Any, sources: Mapping[str, str], before: StockNames
) -> Tuple[Rewrite, StockNames]:
    """Copies what rewrites have changed in a graph.

    Args:
      built: The GraphDef as its user built it.
      running: The same with all rewrites.
      sources: Maps each tensor that enters the graph with a batch, as `node:index`, to the tensor
        that a stage reads in its place.
      before: What was copied earlier, which is not copied again.

    Returns:
      What adds the copies to the running graph, and their names.

    Raises:
      CannotCopy: A variable was changed, or a copy would need what main does not have.
    """
    view = GraphView(built)
    changed = _changed(view, running)
    cut = {TensorRef.parse(name).node for name in sources}
    reached = _with_whole_loops(view, set(view.descendants(changed | cut)))
    wanted = [name for name in view.nodes if name in reached and name not in cut]
    for name in wanted:
        if view.op(name) in VARIABLES or view.op(name) in HANDLES:
            raise CannotCopy(_STATE.format(name))
    new = [name for name in wanted if name not in before.nodes]
    nodes = dict(before.nodes)
    nodes.update((name, "{}/{}".format(SCOPE, name)) for name in new)
    batches = {name: _copied_tensor(source) for name, source in sources.items()}
    writer = _Writer(view, nodes, batches)
    copies = [] if before.batches else _sources(running, sources.values())
    copies += [writer.copy(name) for name in new]
    return Rewrite(nodes=tuple(copies)), StockNames(nodes, batches)


def _changed(view: GraphView, running: Any) -> AbstractSet[str]:
    """Nodes that rewrites have given other inputs."""
    inputs = {node.name: _inputs(node) for node in running.node}
    nodes = view.nodes.items()
    return {name for name, node in nodes if name in inputs and inputs[name] != _inputs(node)}


def _with_whole_loops(view: GraphView, reached: Set[str]) -> Set[str]:
    """These nodes, the loops that they are in, the arrays that they fill, and what needs those."""
    loops = loops_of(view)
    known = 0
    while known != len(reached):
        known = len(reached)
        frames = {frame for name in reached for frame in loops.get(name, ())}
        added = {name for name, each in loops.items() if not frames.isdisjoint(each)}
        read = {tensor.node for name in reached | added for tensor in view.inputs(name)}
        added.update(name for name in read if view.op(name) in _OF_ONE_STEP)
        reached = reached.union(view.descendants(added))
    return reached


def _inputs(node: Any) -> Tuple[List[TensorRef], List[str]]:
    data = [TensorRef.parse(text) for text in node.input if not text.startswith("^")]
    return data, sorted(text for text in node.input if text.startswith("^"))


def _sources(running: Any, tensors: Iterable[str]) -> List[Any]:
    """Copies of the nodes from which stages read batches, without the turns of their threads."""
    names = {TensorRef.parse(tensor).node for tensor in tensors}
    copies = []
    for node in running.node:
        if node.name in names:
            copy = tf.NodeDef()
            copy.CopyFrom(node)
            copy.name = "{}/{}".format(SCOPE, node.name)
            data = [text for text in node.input if not text.startswith("^")]
            del copy.input[:]
            copy.input.extend(data)
            copy.attr.pop(_CLASS, None)
            copies.append(copy)
    return copies


def _copied_tensor(tensor: str) -> str:
    source = TensorRef.parse(tensor)
    return "{}/{}:{}".format(SCOPE, source.node, source.index)


class _Writer:
    """Writes copies of nodes."""

    def __init__(
        self, view: GraphView, nodes: Mapping[str, str], batches: Mapping[str, str]
    ) -> None:
        self._view = view
        self._nodes = nodes
        self._batches = {TensorRef.parse(name): tensor for name, tensor in batches.items()}
        self._sources: Dict[str, str] = {
            tensor.node: TensorRef.parse(copy).node for tensor, copy in self._batches.items()
        }

    def copy(self, name: str) -> Any:
        """A copy that reads copies."""
        copy = tf.NodeDef()
        copy.CopyFrom(self._view.nodes[name])
        copy.name = self._nodes[name]
        del copy.input[:]
        copy.input.extend(self._read(tensor, name) for tensor in self._view.inputs(name))
        copy.input.extend("^" + self._named(each) for each in self._view.controls(name))
        if copy.op in ENTERS:
            copy.attr[_FRAME].s = SCOPE.encode() + b"/" + copy.attr[_FRAME].s
        if _CLASS in copy.attr:
            groups = copy.attr[_CLASS].list.s
            groups[:] = [self._group(group) for group in groups]
        return copy

    def _read(self, tensor: TensorRef, reader: str) -> str:
        if tensor in self._batches:
            return TensorRef.parse(self._batches[tensor]).input_name
        if tensor.node in self._sources:
            raise CannotCopy(_NOT_TAKEN.format(tensor, reader))
        return TensorRef(self._named(tensor.node), tensor.index).input_name

    def _named(self, name: str) -> str:
        return self._nodes.get(name) or self._sources.get(name, name)

    def _group(self, group: bytes) -> bytes:
        prefix, _, name = group.decode().partition("@")
        return "{}@{}".format(prefix, self._named(name)).encode()
