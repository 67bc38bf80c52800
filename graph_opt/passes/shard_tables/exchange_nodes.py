"""Writes the nodes of an exchange: what `ops/exchange.py` builds, with its gradient.

ids -> Prepare ══► ExchangeGather ══► ExchangeCombine -> pooled rows
gradients of pooled rows -> ExchangeCombineGrad ══► ExchangeGatherGrad -> IndexedSlices
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS
from graph_opt.graph.op_call import Call, Tensor
from graph_opt.graph.view import TensorRef
from graph_opt.ops.message_names import GRADIENT_SUFFIX, IDS_SUFFIX, ROWS_SUFFIX
from graph_opt.passes.fusion.candidates import Member
from graph_opt.passes.fusion.group_nodes import GroupNodes, filled_ids
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.shard_tables.exchange_groups import Entry, Exchange
from graph_opt.passes.shard_tables.messages import Messages, Received
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.lookup import Table
from graph_opt.sharding.placement import DIV, MOD, DivRows, RowsOnRank, RowsRule

_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum


class TablePart(NamedTuple):
    """A table of which this rank has a part.

    Attributes:
      table: The variable as the user made it.
      rows: How its rows are sharded.
    """

    table: Table
    rows: RowsRule


class Forward(NamedTuple):
    """The nodes of an exchange that its gradient needs.

    Attributes:
      combine: What returns the pooled rows.
      requests: The requests of all ranks.
      rows: The rows from all ranks.
      prepare: What has found what to ask for.
      inputs: The group's ids, positions, shapes and weights.
      attributes: What all ops of the group share.
    """

    combine: Call
    requests: Received
    rows: Received
    prepare: Call
    inputs: Dict[str, Any]
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
        tables: Dict[str, TablePart],
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
        """Writes the lookup; number i of what `Forward.combine` pools is the result of lookup i."""
        writer, ranks = self._writer, self._messages.num_ranks
        shared = self._nodes.group_op(self._members, writer.device, shared_tables=False)
        fills = [lookup.fills for lookup in self._exchange.lookups]
        attributes = {**shared.attributes, **self._of_tables(), **filled_ids(fills)}
        placed = self._placed()
        prepare = writer.call(
            "prepare",
            "GroupEmbeddingPrepare",
            insert=[],
            shard_rows=self._shard_rows(),
            **shared.inputs,
            **placed,
            **attributes,
        )
        requests = self._send_requests(prepare)
        gather = writer.call(
            "gather",
            "ResourceExchangeGather" if self._is_resource else "ExchangeGather",
            self._divided[0].table.device,
            output_shapes=[(None,), (ranks,)],
            tables=[TensorRef(entry.name, 0) for entry in self._entries],
            requests=requests.tensor,
            splits=requests.splits,
            exchange=self._exchange_key(),
            **self._served(),
        )
        name = self._name + ROWS_SUFFIX
        rows = self._messages.write(
            writer, gather.output("rows"), gather.output("row_splits"), name
        )
        combine = writer.call(
            "pooled",
            "ExchangeCombine",
            rows=rows.tensor,
            splits=rows.splits,
            **self._numbering(prepare),
            pooled_dtypes=self._nodes.pooled_dtypes(self._members, None),
            **shared.inputs,
            **placed,
            **attributes,
        )
        return Forward(combine, requests, rows, prepare, shared.inputs, attributes)

    def write_gradients(self, forward: Forward) -> Dict[Entry, Slices]:
        """Writes the gradients of the tables: this rank's rows, summed over all ranks."""
        writer = self._writer
        combine = writer.call(
            "row_gradients",
            "ExchangeCombineGrad",
            gradients=self._pooled(forward.combine),
            has_gradient=[bool(member.gradient) for member in self._members],
            **self._numbering(forward.prepare),
            **forward.inputs,
            **self._placed(),
            **forward.attributes,
        )
        received = self._messages.write(
            writer,
            combine.result,
            forward.rows.splits,
            self._name + ROWS_SUFFIX + GRADIENT_SUFFIX,
        )
        local = [one.rows.num_local_rows(self._messages.rank) for one in self._divided]
        sums = writer.call(
            "gradients",
            EXCHANGE_SUMS,
            requests=forward.requests.tensor,
            splits=forward.requests.splits,
            gradients=received.tensor,
            table_rows=writer.constant("table_rows", np.array(local, np.int64)),
            **self._served(),
        )
        return {
            entry: Slices(rows.ref, indices.ref)
            for entry, rows, indices in zip(
                self._entries, sums.outputs("values"), sums.outputs("indices")
            )
            if self._exchange.trains(entry)
        }

    def _send_requests(self, prepare: Call) -> Received:
        """Sends a header and the request to each rank."""
        writer = self._writer
        sent = writer.call(
            "ready",
            "ExchangeRequests",
            requests=prepare.outputs("requests"),
            input_ended=[],
            exchange=self._exchange_key(),
        )
        message, splits = sent.output("message"), sent.output("splits")
        return self._messages.write(writer, message, splits, self._name + IDS_SUFFIX)

    def _exchange_key(self) -> str:
        return self._messages.place + self._name

    def _numbering(self, prepare: Call) -> Dict[str, Any]:
        return {key: prepare.output(key) for key in ("inverse", "counts")}

    def _pooled(self, combine: Call) -> List[Tensor]:
        """The gradient of each result; zeros for those that have none."""
        found = []
        for number, (member, pooled) in enumerate(zip(self._members, combine.outputs("pooled"))):
            if member.gradient is not None:
                found += self._nodes.pooled_gradients([member], self._writer.device, None)
                continue
            name = "no_gradient_{}".format(number)
            found.append(self._writer.call(name, "ZerosLike", x=pooled).result)
        return found

    def _of_tables(self) -> Dict[str, Any]:
        """The attributes that describe tables, of which each rank has a shard."""
        lookups = self._exchange.lookups
        rules = [one.rows for one in self._divided]
        return dict(
            num_shards=len(self._owners()),
            lookup_tables=[self._entries.index(one.entry) for one in lookups],
            table_shards=[len(_ranks(rule)) for rule in rules],
            table_names=self._names(),
            partition_strategies=[DIV if isinstance(rule, DivRows) else MOD for rule in rules],
        )

    def _placed(self) -> Dict[str, Any]:
        return dict(
            table_widths=self._widths,
            shard_servers=self._owners(),
            num_servers=self._messages.num_ranks,
        )

    def _served(self) -> Dict[str, Any]:
        rank = self._messages.rank
        return dict(
            num_shards=len(self._entries),
            T=self._dtype,
            table_names=self._names(),
            table_widths=self._widths,
            served=[place for place, one in enumerate(self._divided) if rank in _ranks(one.rows)],
        )

    def _names(self) -> List[str]:
        return [entry.name for entry in self._entries]

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
            [Tensor(tensor.input_name, of_type) for tensor in tensors],
            axis=0,
        )
        for suffix, tensors, of_type, shape in (
            ("values", [part.values for part in parts], dtype, (None, width)),
            ("indices", [part.indices for part in parts], _INT64, (None,)),
        )
    ]
    return Slices(*(tensor.ref for tensor in joined))


def as_dtype(writer: NodeWriter, indices: TensorRef, dtype: Optional[int]) -> TensorRef:
    """Indices as int32, if those that they replace were."""
    if dtype != _INT32:
        return indices
    cast = writer.call(
        "int32",
        "Cast",
        x=Tensor(indices.input_name, _INT64),
        DstT=_INT32,
    )
    return cast.result.ref


def _ranks(rule: RowsRule) -> Sequence[int]:
    """The ranks with a shard, in the order in which the ops number shards."""
    return [rule.rank] if isinstance(rule, RowsOnRank) else range(rule.num_ranks)
