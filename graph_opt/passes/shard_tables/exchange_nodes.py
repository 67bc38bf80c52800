"""Writes the nodes of an exchange: what `ops/exchange.py` builds, with its gradient.

ids -> Prepare ══► ExchangeGather ══► ExchangeCombine -> pooled rows
gradients of pooled rows -> ExchangeCombineGrad ══► ExchangeGatherGrad -> IndexedSlices
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.ops.message_names import GRADIENT_SUFFIX, IDS_SUFFIX, ROWS_SUFFIX
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.candidates import Member
from graph_opt.passes.fusion.group_nodes import GroupNodes, output_name
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.shard_tables.exchange_groups import Entry, Exchange
from graph_opt.passes.shard_tables.messages import Messages, Received
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.lookup import Table
from graph_opt.sharding.placement import DIV, MOD, DivRows, RowsOnRank, RowsRule

_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum
_HEADER = np.zeros([2], np.int64)  # of a rank that has a batch; `message_header.h`


class DividedTable(NamedTuple):
    """A table of which this rank has a part.

    Attributes:
      table: The variable as the user made it.
      rows: How its rows are divided.
    """

    table: Table
    rows: RowsRule


class Forward(NamedTuple):
    """The nodes of an exchange that its gradient needs.

    Attributes:
      combine: The node that returns the pooled rows.
      requests: The requests of all ranks.
      rows: The rows from all ranks.
      prepare: The node that has found what to ask for.
      inputs: The group's ids, positions, shapes and weights.
      attributes: What all ops of the group share.
    """

    combine: str
    requests: Received
    rows: Received
    prepare: str
    inputs: List[str]
    attributes: Dict[str, Any]


class ExchangeNodes:
    """Writes one exchange.

    Args:
      nodes: Collects the nodes.
      exchange: Its lookups.
      tables: The tables, by name of the variable.
      messages: Writes its messages.
      name: Of the exchange; the names of its messages start with it.
      device: Where ids come from and pooled rows go to.
    """

    def __init__(
        self,
        nodes: GroupNodes,
        exchange: Exchange,
        tables: Dict[str, DividedTable],
        messages: Messages,
        name: str,
        device: str,
    ) -> None:
        self._nodes = nodes
        self._exchange = exchange
        self._entries = exchange.entries
        self._divided = [tables[entry.name] for entry in self._entries]
        self._messages = messages
        self._name = name
        self._writer: NodeWriter = nodes.writer("exchange", device)
        first = self._divided[0].table
        self._dtype = first.dtype
        self._is_resource = first.is_resource

    @property
    def _members(self) -> List[Member]:
        return [lookup.member for lookup in self._exchange.lookups]

    @property
    def _widths(self) -> List[int]:
        return [int((one.table.shape or (0, 0))[1] or 0) for one in self._divided]

    def write_lookup(self) -> Forward:
        """Writes the lookup; output number i of `Forward.combine` is the result of lookup i."""
        writer, ranks = self._writer, self._messages.num_ranks
        shared = self._nodes.group_op(self._members, writer.device, shared_tables=False)
        attributes = {**shared.attributes, **self._of_tables()}
        placed = self._placed()
        prepare = writer.node(
            "prepare",
            "GroupEmbeddingPrepare",
            shared.inputs,
            shard_rows=values.integers(self._shard_rows()),
            _output_shapes=values.shapes([(None,)] * (ranks + 1) + [(len(self._owners()),)]),
            **placed,
            **attributes,
        )
        requests = self._send_requests(prepare.name)
        gather = writer.node(
            "gather",
            "ResourceExchangeGather" if self._is_resource else "ExchangeGather",
            [*(entry.name for entry in self._entries), *requests],
            device=self._divided[0].table.device,
            exchange=self._exchange_key(),
            _output_shapes=values.shapes([(None,), (ranks,)]),
            **self._served(),
        )
        rows = self._messages.write(
            writer, gather.name, gather.name + ":1", self._dtype, self._name + ROWS_SUFFIX
        )
        combine = writer.node(
            "pooled",
            "ExchangeCombine",
            [*rows, *self._numbering(prepare.name), *shared.inputs],
            T=tf.AttrValue(type=self._dtype),
            pooled_dtypes=self._nodes.pooled_dtypes(self._members, None),
            _output_shapes=self._nodes.pooled_shapes(self._members, None),
            **placed,
            **attributes,
        )
        return Forward(combine.name, requests, rows, prepare.name, shared.inputs, attributes)

    def write_gradients(self, forward: Forward) -> Dict[Entry, Slices]:
        """Writes the gradients of the tables: this rank's rows, summed over all ranks."""
        writer, shards = self._writer, len(self._entries)
        combine = writer.node(
            "row_gradients",
            "ExchangeCombineGrad",
            [*self._numbering(forward.prepare), *forward.inputs, *self._pooled(forward.combine)],
            num_gradients=values.integer(len(self._members)),
            has_gradient=values.booleans([bool(member.gradient) for member in self._members]),
            T=tf.AttrValue(type=self._dtype),
            _output_shapes=values.shapes([(None,)]),
            **self._placed(),
            **forward.attributes,
        )
        received = self._messages.write(
            writer,
            combine.name,
            forward.rows.splits,
            self._dtype,
            self._name + ROWS_SUFFIX + GRADIENT_SUFFIX,
        )
        local = [one.rows.num_local_rows(self._messages.rank) for one in self._divided]
        sums = writer.node(
            "gradients",
            "ExchangeGatherGrad",
            [*forward.requests, received.tensor]
            + [writer.constant("table_rows", np.array(local, np.int64))],
            _output_shapes=values.shapes(
                [(None,)] * shards + [(None, width) for width in self._widths]
            ),
            **self._served(),
        )
        return {
            entry: Slices(TensorRef(sums.name, shards + place), TensorRef(sums.name, place))
            for place, entry in enumerate(self._entries)
            if self._exchange.trains(entry)
        }

    def _send_requests(self, prepare: str) -> Received:
        """Sends a header and the request to each rank."""
        writer, ranks = self._writer, self._messages.num_ranks
        header = writer.constant("header", _HEADER)
        requests = [output_name(prepare, rank) for rank in range(ranks)]
        sizes = [
            writer.node(
                "size_{}".format(rank),
                "Size",
                [request],
                T=tf.AttrValue(type=_INT64),
                out_type=tf.AttrValue(type=_INT32),
                _output_shapes=values.shapes([()]),
            ).name
            for rank, request in enumerate(requests)
        ]
        packed = writer.node(
            "sizes",
            "Pack",
            sizes,
            N=values.integer(ranks),
            T=tf.AttrValue(type=_INT32),
            axis=values.integer(0),
            _output_shapes=values.shapes([(ranks,)]),
        )
        splits = writer.node(
            "splits",
            "AddV2",
            [packed.name, writer.constant("header_size", np.int32(len(_HEADER)))],
            T=tf.AttrValue(type=_INT32),
            _output_shapes=values.shapes([(ranks,)]),
        )
        joined = writer.joined(
            "requests",
            [part for one in requests for part in (header, one)],
            _INT64,
            axis=0,
            _output_shapes=values.shapes([(None,)]),
        )
        ready = writer.node(
            "ready",
            "ExchangeRequests",
            [joined.name],
            exchange=self._exchange_key(),
            _output_shapes=values.shapes([(None,)]),
        )
        return self._messages.write(
            writer, ready.name, splits.name, _INT64, self._name + IDS_SUFFIX
        )

    def _exchange_key(self) -> Any:
        return tf.AttrValue(s=(self._messages.place + self._name).encode())

    def _numbering(self, prepare: str) -> List[str]:
        ranks = self._messages.num_ranks
        return [output_name(prepare, ranks), output_name(prepare, ranks + 1)]

    def _pooled(self, combine: str) -> List[str]:
        """The gradient of each result; zeros for those that have none."""
        found = []
        for number, member in enumerate(self._members):
            if member.gradient is not None:
                found += self._nodes.pooled_gradients([member], self._writer.device, None)
                continue
            zeros = self._writer.node(
                "no_gradient_{}".format(number),
                "ZerosLike",
                [output_name(combine, number)],
                T=tf.AttrValue(type=self._dtype),
            )
            found.append(zeros.name)
        return found

    def _of_tables(self) -> Dict[str, Any]:
        """The attributes that describe tables, of which each rank has a shard."""
        lookups = self._exchange.lookups
        rules = [one.rows for one in self._divided]
        strategies = [DIV if isinstance(rule, DivRows) else MOD for rule in rules]
        return dict(
            num_shards=values.integer(len(self._owners())),
            lookup_tables=values.integers([self._entries.index(one.entry) for one in lookups]),
            table_shards=values.integers([len(_ranks(rule)) for rule in rules]),
            table_names=self._names(),
            partition_strategies=values.texts(strategies),
        )

    def _placed(self) -> Dict[str, Any]:
        return dict(
            table_widths=values.integers(self._widths),
            shard_servers=values.integers(self._owners()),
            num_servers=values.integer(self._messages.num_ranks),
        )

    def _served(self) -> Dict[str, Any]:
        rank = self._messages.rank
        served = [place for place, one in enumerate(self._divided) if rank in _ranks(one.rows)]
        return dict(
            num_shards=values.integer(len(self._entries)),
            T=tf.AttrValue(type=self._dtype),
            table_names=self._names(),
            table_widths=values.integers(self._widths),
            served=values.integers(served),
        )

    def _names(self) -> Any:
        return values.texts([entry.name for entry in self._entries])

    def _owners(self) -> List[int]:
        """The rank of each shard."""
        return [rank for one in self._divided for rank in _ranks(one.rows)]

    def _shard_rows(self) -> List[int]:
        rules = [one.rows for one in self._divided]
        return [rule.num_local_rows(rank) for rule in rules for rank in _ranks(rule)]


def joined_slices(writer: NodeWriter, parts: Sequence[Slices], dtype: int, width: int) -> Slices:
    """The slices of several exchanges, one after another."""
    if len(parts) == 1:
        return parts[0]
    joined = [
        writer.joined(
            suffix,
            [tensor.input_name for tensor in tensors],
            of_type,
            axis=0,
            _output_shapes=values.shapes([shape]),
        )
        for suffix, tensors, of_type, shape in (
            ("values", [part.values for part in parts], dtype, (None, width)),
            ("indices", [part.indices for part in parts], _INT64, (None,)),
        )
    ]
    return Slices(*(TensorRef(node.name, 0) for node in joined))


def as_dtype(writer: NodeWriter, indices: TensorRef, dtype: Optional[int]) -> TensorRef:
    """Indices as int32, if those that they replace were."""
    if dtype != _INT32:
        return indices
    cast = writer.node(
        "int32",
        "Cast",
        [indices.input_name],
        SrcT=tf.AttrValue(type=_INT64),
        DstT=tf.AttrValue(type=_INT32),
        _output_shapes=values.shapes([(None,)]),
    )
    return TensorRef(cast.name, 0)


def _ranks(rule: RowsRule) -> Sequence[int]:
    """The ranks with a shard, in the order in which the ops number shards."""
    return [rule.rank] if isinstance(rule, RowsOnRank) else range(rule.num_ranks)
