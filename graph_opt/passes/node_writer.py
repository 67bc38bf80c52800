"""Writes the NodeDefs of one stage under the stage's name."""

from __future__ import annotations

import itertools
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.op_call import Call, Tensor, attribute_value, call_op
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, Shape, TensorRef, shape_proto
from graph_opt.ops import stage_nodes
from graph_opt.ops.stage_spec import StageSpec, put_attributes, take_attributes
from graph_opt.passes.io_stages import BUFFER_PUT, BUFFER_TAKE

Operand = Union[TensorRef, Tensor]


def free_scope(view: GraphView, scope: str) -> str:
    """A name scope that the graph does not have: `scope`, or with a number behind it."""
    taken = {name.partition("/")[0] for name in view.nodes}
    found, number = scope, 0
    while found in taken:
        number += 1
        found = "{}_{}".format(scope, number)
    return found


def stage_names(view: GraphView, scope: str) -> Iterator[str]:
    """Names for stages that the graph does not use: `scope`, alone or with a number behind it.

    Nor does it use the name of a stage's IO stage, `<name>_io`.
    """
    taken = {name.partition("/")[0] for name in view.nodes}
    for number in itertools.count():
        name = scope if number == 0 else "{}_{}".format(scope, number)
        if name not in taken and name + "_io" not in taken:
            yield name


def tensor_of(view: GraphView, ref: TensorRef, stand_in: str = "") -> Tensor:
    """A tensor of a graph, with its dtype if it is known.

    Args:
      view: The graph.
      ref: The tensor.
      stand_in: A node that stands for the tensor's, such as a copy; its output is returned.
    """
    dtype = view.dtype(ref) if ref.node in view else None
    name = TensorRef(stand_in or ref.node, ref.index).input_name
    return Tensor(name, value_dtype(dtype or 0))


class Record(NamedTuple):
    """What one element of a buffer contains.

    Attributes:
      inputs: The tensors that are put, as NodeDefs spell them.
      dtypes: Their DataType numbers.
      shapes: Their static shapes.
    """

    inputs: Sequence[str]
    dtypes: Sequence[int]
    shapes: Sequence[Shape]


class NodeWriter:
    """Collects new nodes.

    Args:
      view: The graph.
      scope: Name scope of all nodes, without a trailing slash.
      device: Device of nodes for which none is given.

    Attributes:
      nodes: The NodeDefs written so far, in order.
    """

    def __init__(self, view: GraphView, scope: str, device: str) -> None:
        self._view = view
        self._scope = scope
        self._device = device
        self.nodes: List[Any] = []

    @property
    def scope(self) -> str:
        """Name scope of all nodes."""
        return self._scope

    @property
    def device(self) -> str:
        """Device of nodes for which none is given."""
        return self._device

    def name(self, suffix: str) -> str:
        """The full name of a node."""
        return "{}/{}".format(self._scope, suffix)

    def node(
        self,
        suffix: str,
        op: str,
        inputs: Sequence[str] = (),
        device: Optional[str] = None,
        **attributes: Any,
    ) -> Any:
        """Writes one node and returns its NodeDef, which may still be changed."""
        place = self._device if device is None else device
        node = tf.NodeDef(name=self.name(suffix), op=op, input=inputs, device=place)
        for key, value in attributes.items():
            node.attr[key].CopyFrom(value)
        self.nodes.append(node)
        return node

    def call(
        self,
        suffix: str,
        op: str,
        device: Optional[str] = None,
        waits_for: Sequence[str] = (),
        output_shapes: Optional[Sequence[Shape]] = None,
        **arguments: Any,
    ) -> Call:
        """Writes a node that calls an op.

        Args:
          suffix: Of its name.
          op: The op.
          device: Of the node; None for the writer's.
          waits_for: Names of nodes that run before it.
          output_shapes: Static shapes of its outputs, if they are known.
          **arguments: See `call_op`; tensors of the graph may be TensorRefs.

        Raises:
          ValueError: The arguments are not those of the op.
        """
        given = {key: self._operands(value) for key, value in arguments.items()}
        place = self._device if device is None else device
        made = call_op(op, self.name(suffix), given, place)
        made.node.input.extend("^" + name for name in waits_for)
        if output_shapes is not None:
            made.node.attr[OUTPUT_SHAPES].CopyFrom(attribute_value(output_shapes, "list(shape)"))
        self.nodes.append(made.node)
        return made

    def _operands(self, value: Any) -> Any:
        if isinstance(value, TensorRef):
            return tensor_of(self._view, value)
        if isinstance(value, list):
            return [self._operands(one) for one in value]
        return value

    def constant(self, suffix: str, value: Any, device: Optional[str] = None) -> Tensor:
        """Writes a Const (a `str` becomes a string scalar) and returns its tensor."""
        array = np.asarray(value)
        dtype = tf.as_dtype(array.dtype) if array.dtype.kind not in "SUO" else tf.string
        proto = tf.make_tensor_proto(value, dtype)
        return self.call(suffix, "Const", device, dtype=proto.dtype, value=proto).result

    def joined(
        self,
        suffix: str,
        parts: Sequence[Operand],
        axis: int,
        device: Optional[str] = None,
        output_shapes: Optional[Sequence[Shape]] = None,
        **attributes: Any,
    ) -> Tensor:
        """Writes a ConcatV2 of tensors along an axis, and returns its result.

        Args:
          suffix: Of its name.
          parts: The tensors.
          axis: Along which they are joined.
          device: Of the node; None for the writer's.
          output_shapes: See `call`.
          **attributes: Others that it has.
        """
        along = self.constant(suffix + "/axis", np.int32(axis), device)
        call = self.call(
            suffix,
            "ConcatV2",
            device,
            output_shapes=output_shapes,
            values=list(parts),
            axis=along,
            **attributes,
        )
        return call.result

    def put_and_take(self, spec: StageSpec, record: Record) -> Any:
        """Writes a stage's buffer and returns the take, which may still be changed."""
        types = tf.AttrValue(list=tf.AttrValue.ListValue(type=list(record.dtypes)))
        put = tf.NodeDef(name=spec.name + "/" + BUFFER_PUT, op=BUFFER_PUT, device=self._device)
        take = tf.NodeDef(name=spec.name + "/" + BUFFER_TAKE, op=BUFFER_TAKE, device=self._device)
        for node, attributes in ((put, put_attributes(spec)), (take, take_attributes(spec))):
            node.attr["dtypes"].CopyFrom(types)
            for key, value in attributes.items():
                node.attr[key].CopyFrom(value)
        shapes = [shape_proto(shape) for shape in record.shapes]
        take.attr["shapes"].list.shape.extend(shapes)
        take.attr["_output_shapes"].list.shape.extend(shapes)
        put.input.extend(record.inputs)
        self.nodes.extend([put, take, *stage_nodes.control_nodes(spec, self._device)])
        if spec.ordered:
            turn_end = "{}/{}".format(spec.name, stage_nodes.TURN_END)
            put.input.extend([stage_nodes.place_name(spec), "^" + turn_end])
            self.nodes.extend(stage_nodes.turn_nodes(spec, self._device))
        return take
