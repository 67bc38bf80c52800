"""Computes gradients that a script made as large as their table for the rows that occur in them.

    before   slices -> UnsortedSegmentSum -> AddN, Mul, L2Loss ... over all rows -> update
    after    slices -> UnsortedSegmentSum over unique rows -> the same ops
                 -> UnsortedSegmentSum over all rows -> update

The update then has a gradient as large as the table that is made of IndexedSlices and of nothing
else, which is what `rules/optimizers/dense_gradient.py` recognises; where it is fused, nothing of
the table's size is left. Each row's numbers stay the same to the last bit; norms are summed in
another order.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.graph.rewrite import InputEdit, Rewrite
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.gradients.row_wise import SLICES_AS_TENSOR, RowWise, RowWiseRegion
from graph_opt.rules.op_names import ADDS, PASS_VALUES_ON
from graph_opt.rules.optimizers.sparse_update import dense_gradients

_SCOPE = "compact_gradients"
_CHANGE = "{} as large as the table computed for the rows that occur"
_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum
_SUMS = frozenset(["AddN", *ADDS])


def compact_gradients(state: PassState, options: SessionOptions) -> PassState:
    """Makes such gradients of the updates that may be fused."""
    wanted = options.group_embedding
    if wanted is None or not wanted.fuse_update:
        return state
    view = state.view
    regions = list(_regions(view))
    if not regions:
        return state
    scope = free_scope(view, _SCOPE)
    parts = [
        _CompactRegion(view, region, "{}/{}".format(scope, number))
        for number, region in enumerate(regions)
    ]
    edits = {(edit.node, edit.slot): edit for part in parts for edit in part.edits()}
    nodes = [node for part in parts for node in part.nodes]
    rewritten = state.rewritten(Rewrite(tuple(nodes), tuple(edits.values())))
    return rewritten.reporting(_CHANGE.format(counted(len(regions), "gradient")))


def _regions(view: GraphView) -> Iterator[RowWiseRegion]:
    """The largest regions that end in the gradient of an update, or in a term of its sum."""
    row_wise = RowWise(view)
    seen: Dict[TensorRef, None] = {}
    waiting = list(dense_gradients(view))
    while waiting:
        tensor = waiting.pop()
        if tensor in seen:
            continue
        seen[tensor] = None
        region = row_wise.region_of(tensor)
        if region is not None and not region.is_sum(view):
            yield region
        elif view.op(tensor.node) in _SUMS:
            waiting.extend(view.inputs(tensor.node))
        elif view.op(tensor.node) in PASS_VALUES_ON:
            waiting.append(view.inputs(tensor.node)[0])


class _CompactRegion:
    """Writes the nodes of one region.

    Args:
      view: The graph.
      region: The region.
      scope: Name scope of the nodes.
    """

    def __init__(self, view: GraphView, region: RowWiseRegion, scope: str) -> None:
        self._view = view
        self._region = region
        self._writer = NodeWriter(scope, view.device(region.sources[0]))
        self._made: Dict[str, str] = {}

    @property
    def nodes(self) -> List[Any]:
        """The NodeDefs written so far."""
        return self._writer.nodes

    def edits(self) -> Iterator[InputEdit]:
        """Writes the nodes, and moves what reads the tensors that they stand for."""
        rows = self._unique_rows()
        for name in self._region.nodes:
            self._copy(name)
        totals = dict.fromkeys(self._region.totals)
        for use in totals:
            compact = self._compact(self._view.inputs(use.consumer)[use.slot])
            yield InputEdit(use.consumer, use.slot, compact)
        whole = self._whole(rows)
        for use in self._view.uses(self._region.result):
            if use not in totals:
                yield InputEdit(use.consumer, use.slot, whole)

    def _unique_rows(self) -> str:
        """The rows that occur in any of the slices; writes each of these for them."""
        view, sources = self._view, self._region.sources
        indices = [view.inputs(source)[1] for source in sources]
        dtypes = {view.dtype(one) or _INT64 for one in indices}
        dtype = dtypes.pop() if len(dtypes) == 1 else _INT64
        names = [self._as_dtype(one, dtype) for one in indices]
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
        for source, place in zip(sources, places):
            self._sum(source, place, count)
        return str(unique.name)

    def _sum(self, source: str, places: str, count: str) -> None:
        node = self._clone(source)
        node.input[1:] = [places, count]
        node.attr["Tindices"].type = _INT32
        node.attr["Tnumsegments"].type = _INT32
        self._made[source] = node.name

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
        shapes = original.attr["_output_shapes"].list.shape if original.attr else []
        rows = self._view.shape(TensorRef(self._region.sources[0], 0)) or (None,)
        compact = [
            _without_rows(self._view.shape(TensorRef(name, index)), len(rows))
            for index in range(len(shapes))
        ]
        node.attr["_output_shapes"].CopyFrom(values.shapes(compact))
        return node

    def _compact(self, tensor: TensorRef) -> str:
        """What stands for a tensor in the new nodes: itself, if it is no part of the region."""
        made = self._made.get(tensor.node)
        return tensor.input_name if made is None else TensorRef(made, tensor.index).input_name

    def _whole(self, rows: str) -> str:
        """The result with all rows of the table."""
        source = self._region.sources[0]
        result = self._region.result
        _, _, num_rows = self._view.inputs(source)
        node = self._writer.node(
            "all_rows",
            SLICES_AS_TENSOR,
            [self._compact(result), rows, num_rows.input_name],
            T=tf.AttrValue(type=self._view.dtype(result)),
            Tindices=tf.AttrValue(type=self._dtype_of(rows)),
            Tnumsegments=tf.AttrValue(type=self._view.dtype(num_rows)),
            _output_shapes=values.shapes([self._view.shape(result)]),
        )
        return str(node.name)

    def _dtype_of(self, unique: str) -> int:
        return int(self._writer.named(unique).attr["T"].type)

    def _as_dtype(self, indices: TensorRef, dtype: int) -> str:
        found = self._view.dtype(indices)
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
        node = self._writer.node(
            "joined",
            "ConcatV2",
            [*parts, self._axis()],
            N=values.integer(len(parts)),
            T=tf.AttrValue(type=dtype),
            Tidx=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(None,)]),
        )
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
            [joined, stacked.name, self._axis()],
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

    def _axis(self) -> str:
        """The first axis."""
        name = self._writer.name("axis")
        if all(node.name != name for node in self._writer.nodes):
            self._writer.constant("axis", np.int32(0))
        return name


def _without_rows(shape: Shape, rank: int) -> Shape:
    """The shape with an unknown number of rows, whether or not several are stacked."""
    if shape is None:
        return None
    place = len(shape) - rank
    return tuple(None if axis == place else size for axis, size in enumerate(shape))
