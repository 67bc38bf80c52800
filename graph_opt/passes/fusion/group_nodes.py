"""Writes the nodes that all ops of fused lookups have in common."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.candidates import Candidate, Member, is_flattened
from graph_opt.passes.fusion.concatenated_lookups import Concatenation
from graph_opt.passes.fusion.deferred import DeferredVariable
from graph_opt.passes.fusion.group_tables import (
    RowKey,
    row_key,
    strategies,
    table_name,
    tables_of,
)
from graph_opt.passes.node_writer import NodeWriter

_FLOAT = tf.float32.as_datatype_enum
_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum
# Marks every op of a fused group, as opposed to one that the model calls itself.
FUSED = "_fused_by_graph_opt"


class Columns(NamedTuple):
    """The results of an op's lookups as columns of one tensor [B, width].

    Attributes:
      starts: First column of each member.
      width: Total number of columns.
      gradient: The gradient of that tensor, for ops that take one.
    """

    starts: Tuple[int, ...]
    width: int
    gradient: str = ""


class GroupOp(NamedTuple):
    """The part that all ops of a group share.

    Attributes:
      inputs: ids, positions, shapes and weights, as NodeDefs spell them.
      attributes: The shared attributes, by name.
      shards: Names of the variables; the shards of a table are consecutive.
      shard_dtypes: Their DataType numbers.
      shard_rows: Their numbers of rows.
      shard_widths: Their widths.
      shard_devices: Their devices.
      table_widths: The width of each table.
    """

    inputs: List[str]
    attributes: Dict[str, Any]
    shards: List[str]
    shard_dtypes: List[int]
    shard_rows: List[int]
    shard_widths: List[int]
    shard_devices: List[str]
    table_widths: List[int]


class GroupNodes:
    """Collects the nodes of one rewrite.

    Args:
      view: The graph.
      scope: Name scope of all new nodes.
      deferred: The tables whose update is deferred, by name of the variable.
      answers: Whether updates on servers answer with rows that they have changed.
    """

    def __init__(
        self,
        view: GraphView,
        scope: str,
        deferred: Optional[Mapping[str, DeferredVariable]] = None,
        answers: bool = False,
    ) -> None:
        self._view = view
        self.answers = answers
        self.deferred: Mapping[str, DeferredVariable] = deferred or {}
        self._scope = scope
        self._made: Dict[Tuple[str, str, str], str] = {}
        self._numbers: Dict[str, int] = {}
        self.nodes: List[Any] = []
        # The numbers of rows of dynamic tables, by `row_key`: they stand in for ids.
        self.rows: Dict[RowKey, str] = {}

    def writer(self, kind: str, device: str) -> NodeWriter:
        """A writer with a new scope: `SCOPE/KIND_0`, and so on."""
        number = self._numbers.setdefault(kind, 0)
        self._numbers[kind] = number + 1
        writer = NodeWriter("{}/{}_{}".format(self._scope, kind, number), device)
        writer.nodes = self.nodes
        return writer

    def named(self, name: str) -> Any:
        """The NodeDef of this name among those written so far."""
        return next(node for node in self.nodes if node.name == name)

    def group_op(
        self,
        members: Sequence[Member],
        device: str,
        columns: Optional[Columns] = None,
        shared_tables: bool = True,
        of_gradients: bool = False,
        places: Optional[Mapping[RowKey, str]] = None,
    ) -> GroupOp:
        """What the ops of these lookups share; also writes the conversions they need.

        Args:
          members: The lookups, in the op's order.
          device: The device of the op.
          columns: The columns of the results in one tensor; None if each result is separate.
          shared_tables: Whether lookups of the same table share it; otherwise each lists its own.
          of_gradients: Whether the op takes gradients.
          places: What stands in for keys of dynamic tables; None: the known numbers of rows.
        """
        numbered = self.rows if places is None else places
        candidates = [member.candidate for member in members]
        numbers, tables = tables_of(candidates, shared_tables)
        ids = [
            (numbered[row_key(c)], _INT64) if row_key(c) in numbered else self.ids(c, device)
            for c in candidates
        ]
        shards = [table for lookup in tables for table in lookup.tables]
        inputs = candidates[0].inputs
        attributes = dict(
            num_shards=values.integer(len(shards)),
            num_lookups=values.integer(len(members)),
            num_weights=values.integer(sum(c.inputs.weights is not None for c in candidates)),
            id_dtypes=values.types([dtype for _, dtype in ids]),
            lookup_tables=values.integers(numbers),
            table_shards=values.integers([len(lookup.tables) for lookup in tables]),
            table_names=values.texts([table_name(lookup) for lookup in tables]),
            combiners=values.texts([c.inputs.combiner for c in candidates]),
            layouts=values.texts([_op_layout(c) for c in candidates]),
            weighted=values.booleans([c.inputs.weights is not None for c in candidates]),
            default_ids=values.integers([c.inputs.default_id for c in candidates]),
            partition_strategies=values.texts(strategies(candidates, tables, numbered)),
            safe=tf.AttrValue(b=inputs.safe),
        )
        if columns is not None:
            attributes["columns"] = values.integers(columns.starts)
            attributes["columns_width"] = values.integer(columns.width)
        if of_gradients and any(_fills(candidate) for candidate in candidates):
            filled = [0 if _fills(candidate) else -1 for candidate in candidates]
            attributes["filled_ids"] = values.integers(filled)
        attributes[FUSED] = tf.AttrValue(b=True)
        return GroupOp(
            inputs=[text for text, _ in ids] + self._positions_and_weights(candidates, device),
            attributes=attributes,
            shards=[shard.name for shard in shards],
            shard_dtypes=[shard.dtype for shard in shards],
            shard_rows=[0 if shard.is_dynamic else _static(shard.shape, 0) for shard in shards],
            shard_widths=[_static(shard.shape, 1) for shard in shards],
            shard_devices=[shard.device for shard in shards],
            table_widths=[_static(lookup.tables[0].shape, 1) for lookup in tables],
        )

    def pooled_shapes(self, members: Sequence[Member], columns: Optional[Columns]) -> Any:
        """The value of `_output_shapes` for an op that returns the results."""
        shapes = [self._pooled_shape(member.candidate) for member in members]
        if columns is not None:
            rows = shapes[0][0] if shapes[0] else None
            shapes = [(rows, columns.width)]
        return values.shapes(shapes)

    def _pooled_shape(self, candidate: Candidate) -> Shape:
        if is_flattened(self._view, candidate):
            return (None, _static(candidate.lookup.tables[0].shape, 1))
        return self._view.shape(candidate.lookup.output)

    def pooled_gradients(
        self, members: Sequence[Member], device: str, columns: Optional[Columns]
    ) -> List[str]:
        """The gradients that an op takes: one for each member, or one for all."""
        if columns is not None:
            return [columns.gradient]
        return [self._pooled_gradient(member, device) for member in members]

    def pooled_dtypes(self, members: Sequence[Member], columns: Optional[Columns]) -> Any:
        """The attribute `pooled_dtypes`."""
        dtypes = [member.candidate.lookup.tables[0].dtype for member in members]
        return values.types(dtypes if columns is None else dtypes[:1])

    def _pooled_gradient(self, member: Member, device: str) -> str:
        """The gradient of the op's result: [B, D]."""
        assert member.gradient is not None
        if not is_flattened(self._view, member.candidate):
            return member.gradient.pooled.input_name
        width = _static(member.candidate.lookup.tables[0].shape, 1)
        dtype = self._dtype(member.gradient.pooled)
        return self._reshaped(member.gradient.pooled, [-1, width], dtype, device)

    def joined(
        self, writer: NodeWriter, node: str, concatenation: Concatenation
    ) -> Tuple[TensorRef, str]:
        """(the ConcatV2's result, what replaces it)."""
        view = self._view
        before = TensorRef(concatenation.node, 0)
        inputs = [tensor.input_name for tensor in view.inputs(concatenation.node)]
        first, end = concatenation.first, concatenation.first + concatenation.inputs
        if concatenation.inputs == len(inputs) - 1:
            return before, node
        kept = inputs[:first] + [node] + inputs[end:-1]
        shapes = values.shapes([view.shape(before)])
        shorter = writer.joined("concat", kept, self._dtype(before), 1, _output_shapes=shapes)
        return before, str(shorter.name)

    def column(self, writer: NodeWriter, member: Member, node: str, start: int) -> str:
        """One lookup's part of the joined result, for nodes that read only this part."""
        table = member.candidate.lookup.tables[0]
        shape = self._view.shape(member.candidate.lookup.output)
        return self._columns(writer, node, start, _static(table.shape, 1), table.dtype, shape)

    def columns_of_gradient(self, joined: TensorRef, concatenation: Concatenation) -> str:
        """The lookups' part of the gradient of a ConcatV2's result."""
        shape = self._view.shape(joined)
        if shape is not None and shape[1] == concatenation.width:
            return joined.input_name
        writer = self.writer("gradient_columns", self._view.device(joined.node))
        first, width = concatenation.offset, concatenation.width
        rows = shape[0] if shape else None
        dtype = self._dtype(joined)
        return self._columns(writer, joined.input_name, first, width, dtype, (rows, width))

    def _columns(
        self, writer: NodeWriter, tensor: str, first: int, width: int, dtype: int, shape: Shape
    ) -> str:
        number = len(self.nodes)
        begin = writer.constant("begin_{}".format(number), np.array([0, first], np.int32))
        size = writer.constant("size_{}".format(number), np.array([-1, width], np.int32))
        node = writer.node(
            "columns_{}".format(number),
            "Slice",
            [tensor, begin, size],
            T=tf.AttrValue(type=dtype),
            Index=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([shape]),
        )
        return str(node.name)

    def restored(self, writer: NodeWriter, member: Member, pooled: str) -> str:
        """The op's result in the shape of the lookup's: that of the ids, then that of a row."""
        candidate = member.candidate
        if not is_flattened(self._view, candidate):
            return pooled
        number = len(self.nodes)
        shape = writer.node(
            "ids_shape_{}".format(number),
            "Shape",
            [candidate.inputs.ids.input_name],
            T=tf.AttrValue(type=self._dtype(candidate.inputs.ids)),
            out_type=tf.AttrValue(type=_INT32),
        )
        row = np.array(candidate.row_shape, np.int32)
        last = writer.constant("row_shape_{}".format(number), row)
        whole = writer.joined("shape_{}".format(number), [shape.name, last], _INT32, axis=0)
        restored = writer.node(
            "restored_{}".format(number),
            "Reshape",
            [pooled, whole.name],
            T=tf.AttrValue(type=candidate.lookup.tables[0].dtype),
            Tshape=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([self._view.shape(candidate.lookup.output)]),
        )
        return str(restored.name)

    def _positions_and_weights(self, candidates: Sequence[Candidate], device: str) -> List[str]:
        positions = [self._positions(candidate, device) for candidate in candidates]
        shapes = [self._shape(candidate, device) for candidate in candidates]
        weights = [c.inputs.weights.input_name for c in candidates if c.inputs.weights is not None]
        return positions + shapes + weights

    def ids(self, candidate: Candidate, device: str) -> Tuple[str, int]:
        """The ids as an op takes them, and their DataType number."""
        ids, dtype = candidate.inputs.ids, self._dtype(candidate.inputs.ids)
        if not is_flattened(self._view, candidate):
            return ids.input_name, dtype
        return self._reshaped(ids, [-1], dtype, device), dtype

    def _positions(self, candidate: Candidate, device: str) -> str:
        positions = candidate.inputs.positions
        if positions is None:
            return self._nothing(device)
        if self._dtype(positions) == _INT64:
            return positions.input_name
        key = ("cast", str(positions), device)
        if key not in self._made:
            cast = self.writer("cast", device).node(
                "int64",
                "Cast",
                [positions.input_name],
                SrcT=tf.AttrValue(type=self._dtype(positions)),
                DstT=tf.AttrValue(type=_INT64),
                _output_shapes=values.shapes([self._view.shape(positions)]),
            )
            self._made[key] = cast.name
        return self._made[key]

    def _shape(self, candidate: Candidate, device: str) -> str:
        shape = candidate.inputs.dense_shape
        return self._nothing(device) if shape is None else shape.input_name

    def _nothing(self, device: str) -> str:
        key = ("nothing", "", device)
        if key not in self._made:
            writer = self.writer("nothing", device)
            self._made[key] = writer.constant("empty", np.zeros([0], np.int64))
        return self._made[key]

    def _reshaped(self, tensor: TensorRef, shape: List[int], dtype: int, device: str) -> str:
        key = ("reshape", str(tensor), device)
        if key not in self._made:
            writer = self.writer("reshape", device)
            to = writer.constant("shape", np.array(shape, np.int32))
            static: Shape = tuple(None if size < 0 else size for size in shape)
            reshape = writer.node(
                "flat",
                "Reshape",
                [tensor.input_name, to],
                T=tf.AttrValue(type=dtype),
                Tshape=tf.AttrValue(type=_INT32),
                _output_shapes=values.shapes([static]),
            )
            self._made[key] = reshape.name
        return self._made[key]

    def _dtype(self, tensor: TensorRef) -> int:
        number = self._view.dtype(tensor)
        assert number is not None, tensor
        return number


def output_name(node: str, index: int) -> str:
    """How a NodeDef spells one output of a node."""
    return node if index == 0 else "{}:{}".format(node, index)


def _fills(candidate: Candidate) -> bool:
    """Whether TensorFlow's lookup reads row 0 for an empty bag and then zeroes the result."""
    zeroed = candidate.inputs.safe and candidate.inputs.default_id < 0
    return zeroed and not candidate.is_dynamic


def _op_layout(candidate: Candidate) -> str:
    return "dense" if candidate.inputs.layout == "dense" else "sparse"


def _static(shape: Shape, axis: int) -> int:
    assert shape is not None and shape[axis] is not None
    return int(shape[axis] or 0)
