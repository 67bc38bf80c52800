"""Writes what computes a tensor as large as a table for the rows that occur in it alone."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.rewrite import ControlEdit, InputEdit
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.gradients.row_wise import SLICES_AS_TENSOR, RowWiseRegion

_FLOAT32 = tf.float32.as_datatype_enum
_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum
_BOOL = tf.bool.as_datatype_enum


class CompactRegion:
    """Writes the nodes of one region.

    Args:
      view: The graph.
      region: The region.
      scope: Name scope of the nodes.

    Attributes:
      inputs: Data edges to move.
      controls: Control edges to move.
    """

    def __init__(self, view: GraphView, region: RowWiseRegion, scope: str) -> None:
        self._view = view
        self._region = region
        self._writer = NodeWriter(scope, view.device(region.sources[0]))
        self._made: Dict[str, str] = {}
        self._shape = tuple(size or 0 for size in view.shape(region.result) or ())
        self.inputs: List[InputEdit] = []
        self.controls: List[ControlEdit] = []

    @property
    def nodes(self) -> List[Any]:
        """The NodeDefs written so far."""
        return self._writer.nodes

    def write(self) -> None:
        """Writes the nodes, and moves what reads the tensors that they stand for."""
        slices = [self._slices(source) for source in self._region.sources]
        rows = self._unique_rows(slices)
        for name in self._region.nodes:
            self._copy(name)
        totals = dict.fromkeys(self._region.totals)
        for use in totals:
            compact = self._compact(self._view.inputs(use.consumer)[use.slot])
            self.inputs.append(InputEdit(use.consumer, use.slot, compact))
        if self._region.only_totals:
            return
        if self._region.added_by:
            return self._add(self._region.added_by, rows)
        whole = self._whole(rows)
        for use in self._view.uses(self._region.result):
            if use not in totals:
                self.inputs.append(InputEdit(use.consumer, use.slot, whole))

    def _slices(self, source: str) -> Slices:
        """The IndexedSlices that one of the sources is as large as a table."""
        if self._view.op(source) == SLICES_AS_TENSOR:
            return Slices(*self._view.inputs(source)[:2])
        read = TensorRef(source, 0)
        writer = NodeWriter(self._writer.name("rows_of/" + source), self._view.device(source))
        writer.nodes = self._writer.nodes
        zero = writer.constant("zero", np.float32(0))
        is_set = writer.node(
            "is_set",
            "NotEqual",
            [read.input_name, zero],
            T=tf.AttrValue(type=_FLOAT32),
            incompatible_shape_error=tf.AttrValue(b=True),
        )
        axes = writer.constant("axes", np.arange(1, len(self._shape), dtype=np.int32))
        any_set = writer.node("any", "Any", [is_set.name, axes], Tidx=tf.AttrValue(type=_INT32))
        places = writer.node("where", "Where", [any_set.name], T=tf.AttrValue(type=_BOOL))
        flat = writer.constant("flat", np.array([-1], np.int32))
        indices = writer.node(
            "indices",
            "Reshape",
            [places.name, flat],
            T=tf.AttrValue(type=_INT64),
            Tshape=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(None,)]),
        )
        gathered = writer.node(
            "values",
            "GatherV2",
            [read.input_name, indices.name, writer.constant("axis", np.int32(0))],
            Tparams=tf.AttrValue(type=_FLOAT32),
            Tindices=tf.AttrValue(type=_INT64),
            Taxis=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(None, *self._shape[1:])]),
        )
        return Slices(TensorRef(gathered.name, 0), TensorRef(indices.name, 0))

    def _unique_rows(self, slices: Sequence[Slices]) -> str:
        """The rows that occur in any of the slices; writes each of these for them."""
        dtypes = {self._index_dtype(one.indices) for one in slices}
        dtype = dtypes.pop() if len(dtypes) == 1 else _INT64
        names = [self._as_dtype(one.indices, dtype) for one in slices]
        unique = self._writer.node(
            "unique_rows",
            "Unique",
            [self._joined(names, dtype)],
            T=tf.AttrValue(type=dtype),
            out_idx=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(None,), (None,)]),
        )
        count = self._size("count", unique.name, dtype)
        places = self._split(unique.name + ":1", names, dtype)
        for source, one, place in zip(self._region.sources, slices, places):
            self._made[source] = self._sum(source, one.values, place, count)
        return str(unique.name)

    def _sum(self, source: str, summed: TensorRef, places: str, count: str) -> str:
        node = self._writer.node(
            "rows/" + source,
            SLICES_AS_TENSOR,
            [summed.input_name, places, count],
            T=tf.AttrValue(type=self._dtype(TensorRef(source, 0))),
            Tindices=tf.AttrValue(type=_INT32),
            Tnumsegments=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(None, *self._shape[1:])]),
        )
        return str(node.name)

    def _copy(self, name: str) -> None:
        node = self._clone(name)
        places = range(len(self._view.inputs(name)))
        node.input[: len(places)] = [self._compact(one) for one in self._view.inputs(name)]
        self._made[name] = node.name

    def _clone(self, name: str) -> Any:
        """The same node under a name of its own, of shapes that are not known yet."""
        original = self._view.nodes[name]
        node = self._writer.node("rows/" + name, original.op, original.input, original.device)
        for key, value in original.attr.items():
            if key not in ("_class", "_output_shapes"):
                node.attr[key].CopyFrom(value)
        shapes = self._view.attribute(name, "_output_shapes")
        count = len(shapes.list.shape) if shapes is not None else 0
        compact = [
            _without_rows(self._view.shape(TensorRef(name, index)), len(self._shape))
            for index in range(count)
        ]
        node.attr["_output_shapes"].CopyFrom(values.shapes(compact))
        return node

    def _compact(self, tensor: TensorRef) -> str:
        """What stands for a tensor in the new nodes: itself, if it is no part of the region."""
        made = self._made.get(tensor.node)
        return tensor.input_name if made is None else TensorRef(made, tensor.index).input_name

    def _whole(self, rows: str) -> str:
        """The result with all rows of the table."""
        node = self._writer.node(
            "all_rows",
            SLICES_AS_TENSOR,
            [
                self._compact(self._region.result),
                rows,
                self._writer.constant("num_rows", np.int32(self._shape[0])),
            ],
            T=tf.AttrValue(type=self._dtype(self._region.result)),
            Tindices=tf.AttrValue(type=self._dtype_of(rows)),
            Tnumsegments=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([self._shape]),
        )
        return str(node.name)

    def _add(self, adder: str, rows: str) -> None:
        """Adds the result to the rows of a variable, instead of a node that adds it to all rows.

        That node then adds zeros after this: whoever runs it by its name has the result added, too,
        and only once.
        """
        view = self._view
        variable, _ = view.inputs(adder)
        is_resource = view.op(adder) == "AssignAddVariableOp"
        inputs = [variable.input_name, rows, self._compact(self._region.result)]
        scatter = self._writer.node(
            "add",
            "ResourceScatterAdd" if is_resource else "ScatterAdd",
            [*inputs, *("^" + name for name in view.controls(adder))],
            view.device(adder),
            Tindices=tf.AttrValue(type=self._dtype_of(rows)),
        )
        scatter.attr["dtype" if is_resource else "T"].type = _FLOAT32
        for key in ("_class", "use_locking", "_output_shapes"):
            value = view.attribute(adder, key)
            if value is not None and not (is_resource and key == "use_locking"):
                scatter.attr[key].CopyFrom(value)
        for tensor, use in view.node_uses(adder):
            to = TensorRef(scatter.name, tensor.index).input_name
            self.inputs.append(InputEdit(use.consumer, use.slot, to))
        for waiting in view.control_uses(adder):
            self.controls.append(ControlEdit(waiting, (adder,), (scatter.name,)))
        zeros = self._writer.node(
            "nothing",
            "Fill",
            [
                self._writer.constant("shape", np.array(self._shape, np.int32)),
                self._writer.constant("zero", np.float32(0)),
            ],
            T=tf.AttrValue(type=_FLOAT32),
            index_type=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([self._shape]),
        )
        self.inputs.append(InputEdit(adder, 1, zeros.name))
        self.controls.append(ControlEdit(adder, (), (scatter.name,)))

    def _dtype(self, tensor: TensorRef) -> int:
        return value_dtype(self._view.dtype(tensor) or _FLOAT32)

    def _index_dtype(self, indices: TensorRef) -> int:
        if indices.node in self._view:
            return self._view.dtype(indices) or _INT64
        return _INT64

    def _dtype_of(self, unique: str) -> int:
        return int(self._writer.named(unique).attr["T"].type)

    def _as_dtype(self, indices: TensorRef, dtype: int) -> str:
        found = self._index_dtype(indices)
        if found == dtype:
            return indices.input_name
        node = self._writer.node(
            "indices_{}".format(len(self._writer.nodes)),
            "Cast",
            [indices.input_name],
            SrcT=tf.AttrValue(type=found),
            DstT=tf.AttrValue(type=dtype),
            _output_shapes=values.shapes([(None,)]),
        )
        return str(node.name)

    def _joined(self, parts: Sequence[str], dtype: int) -> str:
        if len(parts) == 1:
            return parts[0]
        shapes = values.shapes([(None,)])
        node = self._writer.joined("joined", parts, dtype, axis=0, _output_shapes=shapes)
        return str(node.name)

    def _split(self, joined: str, parts: Iterable[str], dtype: int) -> List[str]:
        sizes = [
            self._size("size_{}".format(number), part, dtype) for number, part in enumerate(parts)
        ]
        if len(sizes) == 1:
            return [joined]
        stacked = self._writer.node(
            "sizes",
            "Pack",
            sizes,
            N=values.integer(len(sizes)),
            T=tf.AttrValue(type=_INT32),
            axis=values.integer(0),
            _output_shapes=values.shapes([(len(sizes),)]),
        )
        split = self._writer.node(
            "places",
            "SplitV",
            [joined, stacked.name, self._writer.constant("axis", np.int32(0))],
            num_split=values.integer(len(sizes)),
            T=tf.AttrValue(type=_INT32),
            Tlen=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(None,)] * len(sizes)),
        )
        return [TensorRef(split.name, number).input_name for number in range(len(sizes))]

    def _size(self, suffix: str, tensor: str, dtype: int) -> str:
        node = self._writer.node(
            suffix,
            "Size",
            [tensor],
            T=tf.AttrValue(type=dtype),
            out_type=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([()]),
        )
        return str(node.name)


def _without_rows(shape: Shape, rank: int) -> Shape:
    """The shape with an unknown number of rows, whether or not several are stacked."""
    if shape is None:
        return None
    place = len(shape) - rank
    return tuple(None if axis == place else size for axis, size in enumerate(shape))
