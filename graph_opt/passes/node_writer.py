"""Writes the NodeDefs of one stage under the stage's name."""

from __future__ import annotations

import itertools
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, Shape, shape_proto
from graph_opt.ops import stage_nodes
from graph_opt.ops.stage_spec import StageSpec, put_attributes, take_attributes
from graph_opt.passes.io_stages import BUFFER_PUT, BUFFER_TAKE

_INT32 = tf.int32.as_datatype_enum


def free_scope(view: GraphView, scope: str) -> str:
    """A name scope that the graph does not have: `scope`, or with a number behind it."""
    taken = {name.partition("/")[0] for name in view.nodes}
    found, number = scope, 0
    while found in taken:
        number += 1
        found = "{}_{}".format(scope, number)
    return found


def stage_names(view: GraphView, scope: str) -> Iterator[str]:
    """Names for stages, `scope` or with a number behind it, of which the graph has no node.

    Neither has it nodes of the IO stage that may come with one, whose name ends in `_io`.
    """
    taken = {name.partition("/")[0] for name in view.nodes}
    for number in itertools.count():
        name = scope if number == 0 else "{}_{}".format(scope, number)
        if name not in taken and name + "_io" not in taken:
            yield name


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
      scope: Name scope of all nodes, without a trailing slash.
      device: Device of nodes for which none is given.

    Attributes:
      nodes: The NodeDefs written so far, in order.
    """

    def __init__(self, scope: str, device: str) -> None:
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

    def named(self, name: str) -> Any:
        """The NodeDef of this name among those written so far."""
        return next(node for node in self.nodes if node.name == name)

    def constant(self, suffix: str, value: Any, device: Optional[str] = None) -> str:
        """Writes a Const (a `str` becomes a string scalar) and returns its name."""
        array = np.asarray(value)
        dtype = tf.as_dtype(array.dtype) if array.dtype.kind not in "SUO" else tf.string
        node = self.node(
            suffix,
            "Const",
            (),
            device,
            dtype=tf.AttrValue(type=dtype.as_datatype_enum),
            value=tf.AttrValue(tensor=tf.make_tensor_proto(value, dtype)),
        )
        return str(node.name)

    def joined(
        self,
        suffix: str,
        parts: Sequence[str],
        dtype: int,
        axis: int,
        device: Optional[str] = None,
        **attributes: Any,
    ) -> Any:
        """Writes a ConcatV2 of tensors, and returns its NodeDef, which may still be changed.

        Args:
          suffix: Of its name.
          parts: The tensors, as NodeDefs spell them.
          dtype: Their DataType number.
          axis: Along which they are joined.
          device: Of the node; None for the writer's.
          **attributes: AttrValues that it has besides.
        """
        along = self.constant(suffix + "/axis", np.int32(axis), device)
        return self.node(
            suffix,
            "ConcatV2",
            [*parts, along],
            device,
            N=tf.AttrValue(i=len(parts)),
            T=tf.AttrValue(type=dtype),
            Tidx=tf.AttrValue(type=_INT32),
            **attributes,
        )

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
