"""Replaces one of our nodes with TensorFlow's, which are built in a graph of their own first.

our node         inputs -> X -> readers
in its place     inputs -> X/... (TensorFlow's) -> X, an IdentityN, or a NoOp -> readers
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import STAND_IN_SCOPE
from graph_opt.graph.op_call import Tensor, call_op
from graph_opt.graph.undo import node_of_input
from graph_opt.graph.view import TensorRef

_CLASS = "_class"
_SHAPES = "_output_shapes"

Builder = Callable[[List[Any]], Any]
"""From inputs to a list of outputs, or to the operation to run, with TensorFlow's functions."""


def nodes_in_place_of(
    node: Any, graph: Any, build: Builder, in_frame: bool, writes: bool = False
) -> List[Any]:
    """NodeDefs that do what `node` does, the last of them under its name.

    Args:
      node: A NodeDef.
      graph: Its live graph, which knows the dtypes and shapes of the inputs.
      build: Called in an empty graph, with a placeholder for each data input; for the handle of a
        variable it gets a variable of the same shape.
      in_frame: Whether the node may be in a loop, so that nothing may run outside of that loop.
      writes: Whether `build` gets a variable for a reference, too.
    """
    texts = [text for text in node.input if not text.startswith("^")]
    with tf.Graph().as_default() as scratch:
        inputs = [_stand_in(graph, text, number, writes) for number, text in enumerate(texts)]
        outputs = build(inputs)
    graft = _Graft(node, scratch, dict(zip(map(_name, inputs), texts)))
    if in_frame:
        graft.constants_wait_for(node_of_input(texts[0]))
    return graft.nodes(outputs)


def _stand_in(graph: Any, text: str, number: int, writes: bool) -> Any:
    tensor = graph.get_tensor_by_name(str(TensorRef.parse(text)))
    if tensor.dtype == tf.resource:
        return _variable_like(tensor, number)
    name, dtype = "input_{}".format(number), tensor.dtype.base_dtype
    if writes and tensor.dtype != dtype:
        zeros = tf.zeros_initializer()
        return tf.get_variable(name, tensor.shape, dtype, zeros, use_resource=False)
    return tf.placeholder(dtype, tensor.shape, name)


def _variable_like(handle: Any, number: int) -> Any:
    """A variable like the one behind a handle, or only a handle if that has no rows."""
    operation = handle.op
    while operation.type != "VarHandleOp":
        if not operation.inputs:
            raise tf.errors.UnimplementedError(
                None, None, "'{}' does not come from a variable of the graph".format(handle.name)
            )
        operation = operation.inputs[0].op
    name, dtype = "input_{}".format(number), operation.get_attr("dtype")
    shape = tf.TensorShape(operation.get_attr("shape"))
    if not shape.num_elements():  # unknown, or a dynamic table's, which has any number of rows
        any_rows = shape if shape.rank is None else [size or None for size in shape.as_list()]
        return tf.raw_ops.VarHandleOp(dtype=dtype, shape=any_rows, name=name)
    return tf.get_variable(
        name,
        shape,
        dtype,
        tf.zeros_initializer(),
        use_resource=True,
    )


def _name(given: Any) -> str:
    """The node that replaces an input."""
    return str(given.handle.op.name if hasattr(given, "handle") else given.op.name)


class _Graft:
    """The nodes of a scratch graph, renamed for use in another graph."""

    def __init__(self, node: Any, scratch: Any, inputs: Dict[str, str]) -> None:
        self._node = node
        self._scratch = scratch
        self._inputs = inputs
        self._controls = [text for text in node.input if text.startswith("^")]
        self._constant_controls: List[str] = []

    def constants_wait_for(self, name: str) -> None:
        """Puts nodes without inputs into the loop of a node."""
        self._constant_controls = ["^" + name]

    def nodes(self, outputs: Any) -> List[Any]:
        is_operation = isinstance(outputs, tf.Operation)
        needed = self._needed_by([outputs] if is_operation else [one.op for one in outputs])
        graph_def = self._scratch.as_graph_def(add_shapes=_SHAPES in self._node.attr)
        made = [self._moved(node) for node in graph_def.node if node.name in needed]
        return [*made, self._done(outputs) if is_operation else self._last(outputs)]

    def _needed_by(self, operations: Sequence[Any]) -> Dict[str, None]:
        needed: Dict[str, None] = {}
        waiting = list(operations)
        while waiting:
            operation = waiting.pop()
            if operation.name not in needed and operation.name not in self._inputs:
                needed[operation.name] = None
                waiting.extend(tensor.op for tensor in operation.inputs)
                waiting.extend(operation.control_inputs)
        return needed

    def _moved(self, node: Any) -> Any:
        moved = tf.NodeDef()
        moved.CopyFrom(node)
        moved.name = self._renamed(node.name)
        moved.device = self._node.device
        reads_input = not node.input
        controls = self._constant_controls if reads_input else []
        del moved.input[:]
        for text in node.input:
            if text.startswith("^"):
                moved.input.append("^" + self._renamed(text[1:]))
                continue
            tensor = TensorRef.parse(text)
            reads_input = reads_input or tensor.node in self._inputs
            moved.input.append(self._text(tensor))
        if reads_input:
            moved.input.extend(sorted({*self._controls, *controls}))
        if _CLASS in moved.attr:
            groups = moved.attr[_CLASS].list.s
            groups[:] = [self._colocated(group.decode("utf-8")) for group in groups]
        return moved

    def _done(self, operation: Any) -> Any:
        node = call_op("NoOp", self._node.name, {}, self._node.device).node
        node.input.append("^" + self._renamed(operation.name))
        return node

    def _last(self, outputs: Sequence[Any]) -> Any:
        tensors = [
            Tensor(self._text(TensorRef.parse(tensor.name)), tensor.dtype.as_datatype_enum)
            for tensor in outputs
        ]
        node = call_op("IdentityN", self._node.name, {"input": tensors}, self._node.device).node
        node.input.extend(self._controls)
        if _SHAPES in self._node.attr:
            node.attr[_SHAPES].CopyFrom(self._node.attr[_SHAPES])
        return node

    def _text(self, tensor: TensorRef) -> str:
        if tensor.node in self._inputs:
            return self._inputs[tensor.node]
        return TensorRef(self._renamed(tensor.node), tensor.index).input_name

    def _renamed(self, name: str) -> str:
        return str(self._node.name) + STAND_IN_SCOPE + name

    def _colocated(self, group: str) -> bytes:
        head, at, name = group.partition("@")
        if at and name in self._inputs:
            name = TensorRef.parse(self._inputs[name]).node
        elif at:
            name = self._renamed(name)
        return (head + at + name).encode("utf-8")
