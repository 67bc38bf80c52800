"""Writes the nodes that all ops of fused lookups have in common."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, Shape, TensorRef
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
from graph_opt.passes.node_writer import NodeWriter, tensor_of
from graph_opt.rules.lookup_inputs import BAGS, DENSE

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
    gradient: Tensor = Tensor("")


class GroupOp(NamedTuple):
    """The part that all ops of a group share.

    Attributes:
      inputs: `ids`, `positions`, `shapes` and `weights`.
      attributes: The shared attributes, by name.
      shards: Names of the variables; the shards of a table are consecutive.
      shard_dtypes: Their DataType numbers.
      shard_rows: Their numbers of rows.
      shard_widths: Their widths.
      shard_devices: Their devices.
      table_widths: The width of each table.
    """

    inputs: Dict[str, Any]
    attributes: Dict[str, Any]
    shards: List[str]
    shard_dtypes: List[int]
    shard_rows: List[int]
    shard_widths: List[int]
    shard_devices: List[str]
    table_widths: List[int]

    @property
    def tables(self) -> List[TensorRef]:
        """The variables themselves."""
        return [TensorRef(shard, 0) for shard in self.shards]


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
        self._made: Dict[Tuple[str, str, str], Tensor] = {}
        self._numbers: Dict[str, int] = {}
        self.nodes: List[Any] = []
        # The numbers of rows of dynamic tables, by `row_key`: they stand in for ids.
        self.rows: Dict[RowKey, Tensor] = {}
        # What servers are asked for, by what is looked up.
        self.requests: Dict[Hashable, List[Tensor]] = {}

    def writer(self, kind: str, device: str) -> NodeWriter:
        """A writer with a new scope: `SCOPE/KIND_0`, and so on."""
        number = self._numbers.setdefault(kind, 0)
        self._numbers[kind] = number + 1
        writer = NodeWriter(self._view, "{}/{}_{}".format(self._scope, kind, number), device)
        writer.nodes = self.nodes
        return writer

    def named(self, name: str) -> Any:
        """The NodeDef of this name among those written so far."""
        return next(node for node in reversed(self.nodes) if node.name == name)

    def group_op(
        self,
        members: Sequence[Member],
        device: str,
        columns: Optional[Columns] = None,
        shared_tables: bool = True,
        of_gradients: bool = False,
        places: Optional[Mapping[RowKey, Tensor]] = None,
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
            numbered[row_key(c)] if row_key(c) in numbered else self.ids(c, device)
            for c in candidates
        ]
        shards = [table for lookup in tables for table in lookup.tables]
        attributes: Dict[str, Any] = dict(
            num_shards=len(shards),
            lookup_tables=numbers,
            table_shards=[len(lookup.tables) for lookup in tables],
            table_names=[table_name(lookup) for lookup in tables],
            combiners=[c.inputs.combiner for c in candidates],
            layouts=[_op_layout(c) for c in candidates],
            weighted=[c.inputs.weights is not None for c in candidates],
            default_ids=[c.inputs.default_id for c in candidates],
            partition_strategies=strategies(candidates, tables, numbered),
            safe=candidates[0].inputs.safe,
        )
        if columns is not None:
            attributes["columns"] = columns.starts
            attributes["columns_width"] = columns.width
        if of_gradients:
            attributes.update(filled_ids([fills_row_0(candidate) for candidate in candidates]))
        attributes[FUSED] = True
        return GroupOp(
            inputs=dict(
                ids=ids,
                positions=[self._positions(c, device) for c in candidates],
                shapes=[self._shape(c, device) for c in candidates],
                weights=[self._tensor(c.inputs.weights) for c in candidates if c.inputs.weights],
            ),
            attributes=attributes,
            shards=[shard.name for shard in shards],
            shard_dtypes=[shard.dtype for shard in shards],
            shard_rows=[0 if shard.is_dynamic else _static(shard.shape, 0) for shard in shards],
            shard_widths=[_static(shard.shape, 1) for shard in shards],
            shard_devices=[shard.device for shard in shards],
            table_widths=[_static(lookup.tables[0].shape, 1) for lookup in tables],
        )

    def pooled_gradients(
        self, members: Sequence[Member], device: str, columns: Optional[Columns]
    ) -> List[Tensor]:
        """The gradients that an op takes: one for each member, or one for all."""
        if columns is not None:
            return [columns.gradient]
        return [self._pooled_gradient(member, device) for member in members]

    def pooled_dtypes(self, members: Sequence[Member], columns: Optional[Columns]) -> List[int]:
        """The attribute `pooled_dtypes`."""
        dtypes = [member.candidate.lookup.tables[0].dtype for member in members]
        return dtypes if columns is None else dtypes[:1]

    def _pooled_gradient(self, member: Member, device: str) -> Tensor:
        """The gradient of the op's result: [B, D]."""
        assert member.gradient is not None
        if not is_flattened(self._view, member.candidate):
            return self._tensor(member.gradient.pooled)
        width = _static(member.candidate.lookup.tables[0].shape, 1)
        return self._reshaped(member.gradient.pooled, [-1, width], device)

    def joined(
        self, writer: NodeWriter, node: Tensor, concatenation: Concatenation
    ) -> Tuple[TensorRef, Tensor]:
        """(the ConcatV2's result, what replaces it)."""
        view = self._view
        before = TensorRef(concatenation.node, 0)
        inputs = [self._tensor(tensor) for tensor in view.inputs(concatenation.node)]
        first, end = concatenation.first, concatenation.first + concatenation.inputs
        if concatenation.inputs == len(inputs) - 1:
            return before, node
        kept = inputs[:first] + [node] + inputs[end:-1]
        return before, writer.joined("concat", kept, axis=1)

    def column(self, writer: NodeWriter, member: Member, node: Tensor, start: int) -> Tensor:
        """One lookup's part of the joined result, for nodes that read only this part."""
        table = member.candidate.lookup.tables[0]
        shape = self._view.shape(member.candidate.lookup.output)
        return self._columns(writer, node, start, _static(table.shape, 1), shape)

    def columns_of_gradient(self, joined: TensorRef, concatenation: Concatenation) -> Tensor:
        """The lookups' part of the gradient of a ConcatV2's result."""
        shape, whole = self._view.shape(joined), self._tensor(joined)
        if shape is not None and shape[1] == concatenation.width:
            return whole
        writer = self.writer("gradient_columns", self._view.device(joined.node))
        width, rows = concatenation.width, shape[0] if shape else None
        return self._columns(writer, whole, concatenation.offset, width, (rows, width))

    def _columns(
        self, writer: NodeWriter, tensor: Tensor, first: int, width: int, shape: Shape
    ) -> Tensor:
        number = len(self.nodes)
        return writer.call(
            "columns_{}".format(number),
            "Slice",
            input=tensor,
            begin=writer.constant("begin_{}".format(number), np.array([0, first], np.int32)),
            size=writer.constant("size_{}".format(number), np.array([-1, width], np.int32)),
        ).result

    def restored(self, writer: NodeWriter, member: Member, pooled: Tensor) -> Tensor:
        """The op's result in the shape of the lookup's: that of the ids, then that of a row."""
        candidate = member.candidate
        if not is_flattened(self._view, candidate):
            return pooled
        number = len(self.nodes)
        ids, row = self._view.shape(candidate.inputs.ids), candidate.row_shape
        if ids and all(ids[1:]):  # A pass that cuts batches changes the first alone.
            sizes = np.array([-1, *ids[1:], *row], np.int32)
            whole = writer.constant("shape_{}".format(number), sizes)
        else:
            shape = writer.call("ids_shape_{}".format(number), "Shape", input=candidate.inputs.ids)
            last = writer.constant("row_shape_{}".format(number), np.array(row, np.int32))
            whole = writer.joined("shape_{}".format(number), [shape.result, last], axis=0)
        return writer.call(
            "restored_{}".format(number),
            "Reshape",
            tensor=pooled,
            shape=whole,
        ).result

    def ids(self, candidate: Candidate, device: str) -> Tensor:
        """The ids as an op takes them."""
        if not is_flattened(self._view, candidate):
            return self._tensor(candidate.inputs.ids)
        return self._reshaped(candidate.inputs.ids, [-1], device)

    def _positions(self, candidate: Candidate, device: str) -> Tensor:
        positions = candidate.inputs.positions
        if positions is None:
            return self._nothing(device)
        if self._tensor(positions).dtype == _INT64:
            return self._tensor(positions)
        key = ("cast", str(positions), device)
        if key not in self._made:
            cast = self.writer("cast", device).call(
                "int64",
                "Cast",
                x=positions,
                DstT=_INT64,
            )
            self._made[key] = cast.result
        return self._made[key]

    def _shape(self, candidate: Candidate, device: str) -> Tensor:
        shape = candidate.inputs.dense_shape
        return self._nothing(device) if shape is None else self._tensor(shape)

    def _nothing(self, device: str) -> Tensor:
        key = ("nothing", "", device)
        if key not in self._made:
            writer = self.writer("nothing", device)
            self._made[key] = writer.constant("empty", np.zeros([0], np.int64))
        return self._made[key]

    def _reshaped(self, tensor: TensorRef, shape: List[int], device: str) -> Tensor:
        key = ("reshape", str(tensor), device)
        if key not in self._made:
            writer = self.writer("reshape", device)
            reshape = writer.call(
                "flat",
                "Reshape",
                tensor=tensor,
                shape=writer.constant("shape", np.array(shape, np.int32)),
            )
            self._made[key] = reshape.result
        return self._made[key]

    def _tensor(self, ref: TensorRef) -> Tensor:
        return tensor_of(self._view, ref)


def colocated(shards: Sequence[str], is_resource: bool) -> Dict[str, Any]:
    """An argument of an op that takes references to variables: it must be where they are."""
    return {} if is_resource else {"_class": ["loc:@" + shard for shard in shards]}


def filled_ids(fills: Sequence[bool]) -> Dict[str, Any]:
    """The attribute of an op some lookups of which give row 0 a gradient for empty bags.

    Args:
      fills: Which lookups do.
    """
    return {"filled_ids": [0 if one else -1 for one in fills]} if any(fills) else {}


def fills_row_0(candidate: Candidate) -> bool:
    """Whether TensorFlow's lookup reads row 0 for an empty bag and then zeroes the result.

    That row's gradient is zero, but an optimizer with momentum moves it all the same.
    """
    zeroed = candidate.inputs.safe and candidate.inputs.default_id < 0
    return zeroed and not candidate.is_dynamic


def _op_layout(candidate: Candidate) -> str:
    return "dense" if candidate.inputs.layout in (BAGS, DENSE) else "sparse"


def _static(shape: Shape, axis: int) -> int:
    assert shape is not None and shape[axis] is not None
    return int(shape[axis] or 0)
