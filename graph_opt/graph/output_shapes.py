"""Static shapes of new nodes, as TensorFlow's shape functions infer them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.inferred_shapes import inferred_shapes
from graph_opt.compat.op_definitions import is_registered, output_dtypes, value_dtype
from graph_opt.graph.known_attributes import drop_unknown_attributes
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef, shape_proto

# Shape functions look at these: at the values of constants, and at the shapes that handles have.
_SHAPED_BY_THEMSELVES = frozenset(["Const", "VarHandleOp", "VariableV2", "Variable"])
_REFERENCES = 100
_UNKNOWN = tf.TensorShape(None).as_proto()


def give_output_shapes(view: GraphView, nodes: Sequence[Any]) -> None:
    """Gives nodes the attribute `_output_shapes`, unless they have it.

    Args:
      view: The graph to which they will be added.
      nodes: NodeDefs, which may read each other.

    Raises:
      tf.errors.OpError: A node has inputs or attributes that its op does not take.
    """
    new = _NewNodes(view, nodes)
    if new.shapeless:
        for name, shapes in inferred_shapes(new.graph_def(), set(new.shapeless)).items():
            listed = new.shapeless[name].attr[OUTPUT_SHAPES].list
            listed.shape.extend(shape_proto(shape) for shape in shapes)


class _NewNodes:
    """New nodes without shapes, as a graph of their own."""

    def __init__(self, view: GraphView, nodes: Sequence[Any]) -> None:
        self._view = view
        self._new = {node.name: node for node in nodes}
        self._dtypes: Dict[str, Optional[List[int]]] = {}
        self._inputs: Dict[str, str] = {}
        self._made: Dict[Any, Any] = {}
        self.shapeless: Dict[str, Any] = {
            node.name: node
            for node in nodes
            if OUTPUT_SHAPES not in node.attr and self._is_known(node)
        }

    def _is_known(self, node: Any) -> bool:
        """Whether this process has its op, and those of what it reads."""
        if not is_registered(node.op):
            return False
        tensors = (TensorRef.parse(text) for text in node.input if not text.startswith("^"))
        return all(self._dtypes_of(tensor.node) is not None for tensor in tensors)

    def _dtypes_of(self, name: str) -> Optional[List[int]]:
        if name not in self._new:
            return self._view.dtypes(name)
        if name not in self._dtypes:
            self._dtypes[name] = output_dtypes(self._new[name])
        return self._dtypes[name]

    def graph_def(self) -> Any:
        """These nodes, and what stands for their other inputs."""
        graph_def = tf.GraphDef(library=self._view.library)
        for node in self.shapeless.values():
            inputs = [self._input(text) for text in node.input if not text.startswith("^")]
            graph_def.node.append(_bare(node, node.name, inputs))
        graph_def.node.extend(self._made.values())
        drop_unknown_attributes(graph_def)
        return graph_def

    def _input(self, text: str) -> str:
        if text not in self._inputs:
            tensor = TensorRef.parse(text)
            is_own = tensor.node in self.shapeless
            self._inputs[text] = text if is_own else self._stand_in(tensor)
        return self._inputs[text]

    def _stand_in(self, tensor: TensorRef) -> str:
        """The name of a node that has such a tensor: one for all tensors of a dtype and shape."""
        source = self._new.get(tensor.node) or self._view.nodes[tensor.node]
        name = "given_tensors/{}".format(len(self._made))
        if source.op in _SHAPED_BY_THEMSELVES:
            self._made[tensor] = _bare(source, name, [])
            return name
        dtype = (self._dtypes_of(tensor.node) or ())[tensor.index]
        shape = _shape_of(source, tensor.index)
        key = dtype, shape.SerializeToString()
        if key not in self._made:
            op = "Placeholder" if dtype < _REFERENCES else "VariableV2"
            node = self._made[key] = tf.NodeDef(name=name, op=op)
            node.attr["dtype"].type = value_dtype(dtype)
            node.attr["shape"].shape.CopyFrom(shape)
        return str(self._made[key].name)


def _shape_of(node: Any, index: int) -> Any:
    shapes = node.attr[OUTPUT_SHAPES].list.shape if OUTPUT_SHAPES in node.attr else ()
    return shapes[index] if index < len(shapes) else _UNKNOWN


def _bare(node: Any, name: str, inputs: List[str]) -> Any:
    """A node without what shapes do not depend on."""
    made = tf.NodeDef(name=name, op=node.op, input=inputs)
    for key, value in node.attr.items():
        if not key.startswith("_"):
            made.attr[key].CopyFrom(value)
    return made
