"""Writes what computes a tensor as large as a table for the rows that occur in it alone."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor, attribute_value
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.gradients.row_wise import SLICES_AS_TENSOR, RowWiseRegion

_FLOAT32 = tf.float32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum


class CompactRegion:
    """Writes the nodes of one region.

    Args:
      view: The graph.
      region: The region.
      scope: Name scope of the nodes.
      edits: Collects the edits.
    """

    def __init__(self, view: GraphView, region: RowWiseRegion, scope: str, edits: Edits) -> None:
        self._view = view
        self._edits = edits
        self._region = region
        self._writer = NodeWriter(view, scope, view.device(region.sources[0]))
        self._made: Dict[str, TensorRef] = {}
        self._shape = tuple(size or 0 for size in view.shape(region.result) or ())

    @property
    def nodes(self) -> List[Any]:
        """The NodeDefs written so far."""
        return self._writer.nodes

    def write(self) -> None:
        """Writes the nodes, and moves what reads the tensors that they stand for."""
        region = self._region
        slices = [
            self._slices(source, read, waits)
            for source, read, waits in zip(region.sources, region.reads, region.waits)
        ]
        rows = self._unique_rows(slices)
        for name in self._region.nodes:
            self._copy(name)
        totals = dict.fromkeys(self._region.totals)
        for use in totals:
            compact = self._compact(self._view.inputs(use.consumer)[use.slot])
            self._edits.move([use], compact.input_name)
        if self._region.only_totals:
            return
        if self._region.added_by:
            return self._add(self._region.added_by, rows)
        whole = self._whole(rows)
        uses = self._view.uses(self._region.result)
        self._edits.move([use for use in uses if use not in totals], whole)

    def _slices(self, source: str, read: TensorRef, waits: Sequence[str]) -> Slices:
        """The IndexedSlices that one of the sources is as large as a table."""
        if self._view.op(source) == SLICES_AS_TENSOR:
            return Slices(*self._view.inputs(source)[:2])
        writer = NodeWriter(
            self._view, self._writer.name("rows_of/" + source), self._view.device(source)
        )
        writer.nodes = self._writer.nodes
        zero = writer.constant("zero", np.float32(0))
        is_set = writer.call("is_set", "NotEqual", waits_for=waits, x=read, y=zero).result
        axes = writer.constant("axes", np.arange(1, len(self._shape), dtype=np.int32))
        any_set = writer.call("any", "Any", input=is_set, reduction_indices=axes).result
        indices = writer.call(
            "indices",
            "Reshape",
            tensor=writer.call("where", "Where", input=any_set).result,
            shape=writer.constant("flat", np.array([-1], np.int32)),
        ).result
        # An accumulator is no table: through a Reshape, which copies nothing, this is no lookup.
        shape = writer.constant("shape", np.array(self._shape, np.int32))
        gathered = writer.call(
            "values",
            "GatherV2",
            params=writer.call("memory", "Reshape", tensor=read, shape=shape).result,
            indices=indices,
            axis=writer.constant("axis", np.int32(0)),
        ).result
        return Slices(gathered.ref, indices.ref)

    def _unique_rows(self, slices: Sequence[Slices]) -> Tensor:
        """The rows that occur in any of the slices; writes each of these for them."""
        dtypes = {self._index_dtype(one.indices) for one in slices}
        dtype = dtypes.pop() if len(dtypes) == 1 else _INT64
        indices = [self._as_dtype(one.indices, dtype) for one in slices]
        unique = self._writer.call("unique_rows", "Unique", x=self._joined(indices))
        count = self._size("count", unique.output("y"))
        places = self._split(unique.output("idx"), indices)
        for source, one, place in zip(self._region.sources, slices, places):
            self._made[source] = self._sum(source, one.values, place, count).ref
        return unique.output("y")

    def _sum(self, source: str, summed: TensorRef, places: Tensor, count: Tensor) -> Tensor:
        dtype = self._dtype(TensorRef(source, 0))
        return self._writer.call(
            "rows/" + source,
            SLICES_AS_TENSOR,
            data=Tensor(summed.input_name, dtype),
            segment_ids=places,
            num_segments=count,
        ).result

    def _copy(self, name: str) -> None:
        node = self._clone(name)
        inputs = [self._compact(one).input_name for one in self._view.inputs(name)]
        node.input[: len(inputs)] = inputs
        self._made[name] = TensorRef(node.name, 0)

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
        node.attr["_output_shapes"].CopyFrom(attribute_value(compact, "list(shape)"))
        return node

    def _compact(self, tensor: TensorRef) -> TensorRef:
        """What stands for a tensor in the new nodes: itself, if it is no part of the region."""
        made = self._made.get(tensor.node)
        return tensor if made is None else TensorRef(made.node, tensor.index)

    def _whole(self, rows: Tensor) -> Tensor:
        """The result with all rows of the table."""
        return self._writer.call(
            "all_rows",
            SLICES_AS_TENSOR,
            data=self._compact_result(),
            segment_ids=rows,
            num_segments=self._writer.constant("num_rows", np.int32(self._shape[0])),
        ).result

    def _compact_result(self) -> Tensor:
        result = self._region.result
        return Tensor(self._compact(result).input_name, self._dtype(result))

    def _add(self, adder: str, rows: Tensor) -> None:
        """Adds the result to the rows of a variable, instead of a node that adds it to all rows.

        That node then adds zeros after this: whoever runs it by its name has the result added, too,
        and only once.
        """
        view = self._view
        variable, _ = view.inputs(adder)
        is_resource = view.op(adder) == "AssignAddVariableOp"
        kept = {key: view.attribute(adder, key) for key in ("_class", "_output_shapes")}
        if not is_resource:
            kept["use_locking"] = view.attribute(adder, "use_locking")
        target = {"resource": variable, "dtype": _FLOAT32} if is_resource else {"ref": variable}
        scatter = self._writer.call(
            "add",
            "ResourceScatterAdd" if is_resource else "ScatterAdd",
            view.device(adder),
            waits_for=view.controls(adder),
            indices=rows,
            updates=self._compact_result(),
            **target,
            **{key: value for key, value in kept.items() if value is not None},
        )
        for tensor, use in view.node_uses(adder):
            to = TensorRef(scatter.name, tensor.index).input_name
            self._edits.move([use], to)
        self._edits.replace_waits(adder, scatter.name)
        zeros = self._writer.call(
            "nothing",
            "Fill",
            dims=self._writer.constant("shape", np.array(self._shape, np.int32)),
            value=self._writer.constant("zero", np.float32(0)),
        )
        self._edits.move_input(adder, 1, zeros.result)
        self._edits.wait(adder, scatter.name)

    def _dtype(self, tensor: TensorRef) -> int:
        return value_dtype(self._view.dtype(tensor) or _FLOAT32)

    def _index_dtype(self, indices: TensorRef) -> int:
        if indices.node in self._view:
            return self._view.dtype(indices) or _INT64
        return _INT64

    def _as_dtype(self, indices: TensorRef, dtype: int) -> Tensor:
        given = Tensor(indices.input_name, self._index_dtype(indices))
        if given.dtype == dtype:
            return given
        suffix = "indices_{}".format(len(self._writer.nodes))
        return self._writer.call(suffix, "Cast", x=given, DstT=dtype).result

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        return self._writer.joined("joined", parts, axis=0)

    def _split(self, joined: Tensor, parts: Sequence[Tensor]) -> List[Tensor]:
        sizes = [self._size("size_{}".format(number), part) for number, part in enumerate(parts)]
        if len(sizes) == 1:
            return [joined]
        stacked = self._writer.call("sizes", "Pack", values=sizes).result
        split = self._writer.call(
            "places",
            "SplitV",
            value=joined,
            size_splits=stacked,
            split_dim=self._writer.constant("axis", np.int32(0)),
            num_split=len(sizes),
        )
        return split.outputs("output")

    def _size(self, suffix: str, tensor: Tensor) -> Tensor:
        return self._writer.call(suffix, "Size", input=tensor).result


def _without_rows(shape: Shape, rank: int) -> Shape:
    """The shape with an unknown number of rows, whether or not several are stacked."""
    if shape is None:
        return None
    place = len(shape) - rank
    return tuple(None if axis == place else size for axis, size in enumerate(shape))
