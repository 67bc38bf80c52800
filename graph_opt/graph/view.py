"""A read-only view of a GraphDef: edges in both directions, dtypes, shapes, constants."""

from __future__ import annotations

import copy
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import output_dtypes
from graph_opt.graph.constant_values import constant_value
from graph_opt.graph.control_flow_ops import BACK_EDGE_SOURCES, MERGES
from graph_opt.graph.walks import reach, sorted_nodes, spread

_PASS_THROUGH = frozenset(["Identity", "EnsureShape", "StopGradient", "PreventGradient"])

Shape = Optional[Tuple[Optional[int], ...]]


def shape_proto(shape: Shape) -> Any:
    """The TensorShapeProto of a static shape."""
    return tf.TensorShape(None if shape is None else list(shape)).as_proto()


class TensorRef(NamedTuple):
    """One output of one node; prints as TensorFlow's tensor name, `node:index`."""

    node: str
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which nobody needs here.

    def __str__(self) -> str:
        return "{}:{}".format(self.node, self.index)

    @property
    def input_name(self) -> str:
        """How a NodeDef spells it as an input: `node` for output 0, else `node:index`."""
        return self.node if self.index == 0 else str(self)

    @classmethod
    def parse(cls, text: str) -> TensorRef:
        """Reads `node` or `node:index`.

        Example:
          >>> TensorRef.parse("a/b:2")
          TensorRef(node='a/b', index=2)
        """
        head, colon, tail = text.rpartition(":")
        if colon and tail.isdigit():
            return cls(head, int(tail))
        return cls(text, 0)


class Use(NamedTuple):
    """One data edge seen from its tensor: input number `slot` of node `consumer`."""

    consumer: str
    slot: int


class GraphView:
    """Indexes a GraphDef once, in linear time, and never changes it.

    Args:
      graph_def: A GraphDef; the view keeps a reference to it, so do not edit it while the view is
        in use.

    Attributes:
      library: The functions of the graph and their gradients, as the GraphDef has them.
      functions: Its FunctionDefs by name.
      nodes: Its NodeDefs by name.

    Raises:
      InvalidArgumentError: Two nodes have the same name, or an input names a missing node.

    Example:
      >>> view = GraphView(graph.as_graph_def(add_shapes=True))
      >>> view.uses(TensorRef("ids", 0))
      [Use(consumer='lookup', slot=1)]
    """

    def __init__(self, graph_def: Any) -> None:
        self.library = graph_def.library
        self.functions = {each.signature.name: each for each in graph_def.library.function}
        self.nodes: Dict[str, Any] = {}
        self._ops: Dict[str, str] = {}
        self._by_op: Dict[str, List[str]] = {}
        for node in graph_def.node:
            self._add(node)
        self._tensors: Dict[str, TensorRef] = {}
        self._inputs: Dict[str, Tuple[TensorRef, ...]] = {}
        self._controls: Dict[str, Tuple[str, ...]] = {}
        self._uses: Dict[str, List[Tuple[int, str, int]]] = {}
        self._control_uses: Dict[str, List[str]] = {}
        for name, node in self.nodes.items():
            self._connect(name, node)
        self._dtypes: Dict[str, Optional[List[int]]] = {}
        self._constants: Dict[str, Optional[np.ndarray]] = {}
        self._order: Optional[Tuple[str, ...]] = None

    def _add(self, node: Any) -> None:
        name = node.name
        if name in self.nodes:
            raise tf.errors.InvalidArgumentError(
                None, None, "two nodes are named '{}': this is not a valid GraphDef".format(name)
            )
        op = node.op
        self.nodes[name] = node
        self._ops[name] = op
        self._by_op.setdefault(op, []).append(name)

    def _connect(self, name: str, node: Any) -> None:
        data: List[TensorRef] = []
        controls: List[str] = []
        tensors, uses = self._tensors, self._uses
        for text in node.input:
            if text.startswith("^"):
                source = text[1:]
                self._require(source, name, text)
                controls.append(source)
                self._control_uses.setdefault(source, []).append(name)
                continue
            tensor = tensors.get(text)
            if tensor is None:
                tensor = tensors[text] = TensorRef.parse(text)
                self._require(tensor.node, name, text)
            source, index = tensor
            use = (index, name, len(data))
            if source in uses:
                uses[source].append(use)
            else:
                uses[source] = [use]
            data.append(tensor)
        self._inputs[name] = tuple(data)
        self._controls[name] = tuple(controls)

    def _require(self, source: str, consumer: str, text: str) -> None:
        if source not in self.nodes:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "node '{}' reads '{}', but the graph has no node '{}': the file is truncated or "
                "was cut out of a larger graph".format(consumer, text, source),
            )

    def after(self, changed: Mapping[str, Any], added: Iterable[Any]) -> GraphView:
        """Returns the view of a rewritten graph, without parsing its unchanged nodes again.

        Args:
          changed: NodeDefs with changed inputs, which replace those of the same names.
          added: NodeDefs of new nodes.

        Raises:
          InvalidArgumentError: As for a new view.
        """
        view = self._copy()
        view.nodes.update(changed)
        for node in added:
            view._add(node)
        view._disconnect(changed.keys())
        connected = sorted(changed) + list(view.nodes)[len(self.nodes) :]
        view._unshare_lists(connected)
        for name in connected:
            view._connect(name, view.nodes[name])
        return view

    def without(self, names: AbstractSet[str]) -> GraphView:
        """Returns the view of the graph without some of its nodes.

        Raises:
          InvalidArgumentError: Another node reads one of them.
        """
        view = self._copy()
        for name in [name for name in self.nodes if name in names]:
            del view.nodes[name], view._ops[name]
            users = [use[1] for use in view._uses.pop(name, ())]
            for user in users + view._control_uses.pop(name, []):
                if user not in names:
                    view._require(name, user, name)
        view._disconnect(names)
        for name in names:
            del view._inputs[name], view._controls[name]
        for op, shown in view._by_op.items():
            view._by_op[op] = [name for name in shown if name not in names]
        # Otherwise a node added later that reads one of these would go unnoticed.
        tensors = self._tensors.items()
        view._tensors = {text: tensor for text, tensor in tensors if tensor.node not in names}
        if self._order is not None:
            view._order = tuple(name for name in self._order if name not in names)
        return view

    def _copy(self) -> GraphView:
        view = copy.copy(self)
        view.nodes, view._ops = dict(self.nodes), dict(self._ops)
        view._by_op = {op: list(names) for op, names in self._by_op.items()}
        view._tensors = dict(self._tensors)
        view._inputs, view._controls = dict(self._inputs), dict(self._controls)
        view._uses, view._control_uses = dict(self._uses), dict(self._control_uses)
        view._order = None
        return view

    def _disconnect(self, names: AbstractSet[str]) -> None:
        """Removes the edges into these nodes, replacing the lists that held them."""
        sources = {tensor.node for name in names for tensor in self._inputs[name]}
        for source in sources.intersection(self._uses):
            self._uses[source] = [use for use in self._uses[source] if use[1] not in names]
        waited_for = {source for name in names for source in self._controls[name]}
        for source in waited_for.intersection(self._control_uses):
            users = self._control_uses[source]
            self._control_uses[source] = [user for user in users if user not in names]

    def _unshare_lists(self, names: Iterable[str]) -> None:
        """Copies the lists that connecting these nodes appends to: another view shares them."""
        texts = {text for name in names for text in self.nodes[name].input}
        for source in {TensorRef.parse(text).node for text in texts if not text.startswith("^")}:
            if source in self._uses:
                self._uses[source] = list(self._uses[source])
        for source in {text[1:] for text in texts if text.startswith("^")}:
            if source in self._control_uses:
                self._control_uses[source] = list(self._control_uses[source])

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    def __len__(self) -> int:
        return len(self.nodes)

    def op(self, name: str) -> str:
        """Op type of a node."""
        return self._ops[name]

    def of_op(self, *ops: str) -> List[str]:
        """Names of all nodes of these op types, in graph order within a type."""
        return [name for op in ops for name in self._by_op.get(op, ())]

    def ops(self) -> Iterable[str]:
        """The op types that occur."""
        return self._by_op.keys()

    def inputs(self, name: str) -> Tuple[TensorRef, ...]:
        """Data inputs in order."""
        return self._inputs[name]

    def input(self, name: str, slot: int) -> Optional[TensorRef]:
        """Data input number `slot`, or None if the node has fewer."""
        inputs = self._inputs[name]
        return inputs[slot] if slot < len(inputs) else None

    def controls(self, name: str) -> Tuple[str, ...]:
        """Sources of the node's control inputs."""
        return self._controls[name]

    def uses(self, tensor: TensorRef) -> List[Use]:
        """Data edges that read this tensor."""
        wanted = tensor.index
        return [
            Use(consumer, slot)
            for index, consumer, slot in self._uses.get(tensor.node, ())
            if index == wanted
        ]

    def node_uses(self, name: str) -> List[Tuple[TensorRef, Use]]:
        """Data edges that read any output of this node."""
        return [
            (TensorRef(name, index), Use(consumer, slot))
            for index, consumer, slot in self._uses.get(name, ())
        ]

    def readers(self, name: str) -> List[str]:
        """Nodes with a data edge from any output of this node, one entry per edge."""
        return [consumer for _, consumer, _ in self._uses.get(name, ())]

    def is_read(self, name: str) -> bool:
        """Whether any data edge leaves the node."""
        return bool(self._uses.get(name))

    def control_uses(self, name: str) -> List[str]:
        """Nodes with a control edge from this one."""
        return self._control_uses.get(name, [])

    def attribute(self, name: str, key: str) -> Optional[Any]:
        """The AttrValue `key` of a node, or None."""
        node = self.nodes[name]
        return node.attr[key] if key in node.attr else None

    def device(self, name: str) -> str:
        """The device string of a node; '' if it requests none."""
        return self.nodes[name].device

    def dtypes(self, name: str) -> Optional[List[int]]:
        """DataType numbers of the outputs (+100 for reference types); None for an unknown op."""
        if name not in self._dtypes:
            self._dtypes[name] = output_dtypes(self.nodes[name])
        return self._dtypes[name]

    def dtype(self, tensor: TensorRef) -> Optional[int]:
        """DataType number of one tensor; None for an unknown op."""
        dtypes = self.dtypes(tensor.node)
        if dtypes is None or tensor.index >= len(dtypes):
            return None
        return dtypes[tensor.index]

    def shape(self, tensor: TensorRef) -> Shape:
        """Static shape as written by `as_graph_def(add_shapes=True)`.

        None means unknown rank; a dimension of None is unknown.
        """
        value = self.attribute(tensor.node, "_output_shapes")
        if value is None or tensor.index >= len(value.list.shape):
            return None
        proto = value.list.shape[tensor.index]
        if proto.unknown_rank:
            return None
        return tuple(None if size.size < 0 else int(size.size) for size in proto.dim)

    def through_identity(self, tensor: TensorRef) -> TensorRef:
        """Follows Identity, StopGradient and EnsureShape upstream to the tensor they pass on."""
        while self._ops[tensor.node] in _PASS_THROUGH:
            tensor = self._inputs[tensor.node][0]
        return tensor

    def constant(self, tensor: TensorRef) -> Optional[np.ndarray]:
        """Value of a Const, possibly followed by Identity nodes; else None."""
        name = self.through_identity(tensor).node
        if self._ops[name] != "Const":
            return None
        if name not in self._constants:
            self._constants[name] = constant_value(self.nodes[name])
        return self._constants[name]

    def predecessors(self, name: str) -> List[str]:
        """Nodes with a data or control edge to this one, except back edges of loops."""
        data = [tensor.node for tensor in self._inputs[name]]
        if self._ops[name] in MERGES:
            data = [node for node in data if self._ops[node] not in BACK_EDGE_SOURCES]
        return [*data, *self._controls[name]]

    def successors(self, name: str) -> List[str]:
        """Nodes with a data or control edge from this one, except back edges of loops."""
        data = [consumer for _, consumer, _ in self._uses.get(name, ())]
        if self._ops[name] in BACK_EDGE_SOURCES:
            data = [node for node in data if self._ops[node] not in MERGES]
        data.extend(self._control_uses.get(name, ()))
        return data

    def topological_order(self) -> Optional[Tuple[str, ...]]:
        """All nodes, each after its inputs (Kahn's algorithm); None if there is a cycle."""
        if self._order is None:
            self._order = self._sorted()
        return self._order if len(self._order) == len(self.nodes) else None

    def _sorted(self) -> Tuple[str, ...]:
        """The nodes that no cycle precedes, each after its inputs."""
        missing = {
            name: len(inputs) + len(self._controls[name]) for name, inputs in self._inputs.items()
        }
        for name in self.of_op(*MERGES):
            missing[name] = len(self.predecessors(name))
        return sorted_nodes(missing, self._forward_uses(), self._control_uses)

    def spread(self, marks: Dict[str, int], stops: AbstractSet[str] = frozenset()) -> None:
        """Adds the marks of nodes to all that can be reached from them without back edges.

        Args:
          marks: Bits by name of the node; changed in place.
          stops: Nodes that get no marks.

        Raises:
          ValueError: The graph has a cycle.
        """
        order = self.topological_order()
        if order is None:
            raise ValueError("a graph with a cycle has no order in which marks spread")
        spread(order, marks, stops, self._forward_uses(), self._control_uses)

    def _forward_uses(self) -> Dict[str, List[Tuple[int, str, int]]]:
        """Data edges by source, except back edges of loops."""
        uses = dict(self._uses)
        for name in self.of_op(*BACK_EDGE_SOURCES):
            uses[name] = [use for use in uses.get(name, ()) if self._ops[use[1]] not in MERGES]
        return uses

    def descendants(self, sources: Iterable[str]) -> Dict[str, None]:
        """All nodes reachable from `sources`, these included, also over loops' back edges."""
        return reach(sources, lambda name: self.readers(name) + self.control_uses(name))

    def ancestors(self, sinks: Iterable[str]) -> Dict[str, None]:
        """All nodes from which `sinks` can be reached, these included."""
        inputs, controls = self._inputs, self._controls
        return reach(sinks, lambda name: [*(one.node for one in inputs[name]), *controls[name]])
