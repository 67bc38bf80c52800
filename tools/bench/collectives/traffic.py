"""What a rank sends in a step, counted in its graph, and what SparseOperationKit would send.

    all-to-all   what goes to other ranks
    allgather    the rank's tensor, to each other rank
    allreduce    twice the tensor's (N - 1) / N: what a ring of ranks sends

SparseOperationKit sends all ids and the lengths of all bags to all ranks. Each pools the rows that
it has, and returns those partial sums; their gradients come back the same way.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.ancestors import ancestors

ALL_TO_ALLS = ("ExchangeAllToAll", "HorovodAlltoall")
ALL_GATHER = "HorovodAllgather"
ALL_REDUCE = "HorovodAllreduce"
_KINDS = (*ALL_TO_ALLS, ALL_GATHER, ALL_REDUCE)
_PUT = "TensorBufferPut"
_KEY_BYTES = 8
_LENGTH_BYTES = 4
_FLOAT_BYTES = 4


class Traffic(NamedTuple):
    """Of a step of one rank.

    Attributes:
      messages: collective operations for the tables.
      dense_messages: those for all other variables.
      table_bytes: what it sends for the tables.
      dense_bytes: what it sends for all other variables.
    """

    messages: int
    dense_messages: int
    table_bytes: float
    dense_bytes: float


class Counted(NamedTuple):
    """Collectives of a graph and the bytes that each of them sends."""

    kinds: List[str]
    sent: tf.Tensor


def counters(graph: tf.Graph, train_op: tf.Operation, rank: int, ranks: int) -> Counted:
    """Adds to a graph the bytes that each collective sends, int64 [collectives]."""
    needed = ancestors([train_op])
    found = [op for op in graph.get_operations() if op in needed and op.type in _KINDS]
    with graph.as_default():
        sent = [_sent(op, rank, ranks) for op in found]
        total = tf.stack(sent) if sent else tf.zeros([0], tf.int64)
    return Counted([op.type for op in found], total)


def traffic(sent: Sequence[float], dense: Sequence[int], ranks: int) -> Traffic:
    """Tells tables and other variables apart.

    Args:
      sent: bytes of each collective.
      dense: number of elements of each other variable, whose gradient is an allreduce of its own.
      ranks: number of ranks.
    """
    dense_bytes = ring_bytes(_FLOAT_BYTES * sum(dense), ranks)
    return Traffic(len(sent) - len(dense), len(dense), sum(sent) - dense_bytes, dense_bytes)


def ring_bytes(size: float, ranks: int) -> float:
    """What a rank sends when a tensor of so many bytes is reduced in a ring."""
    return 2.0 * size * (ranks - 1) / ranks


def sok_bytes(keys: float, bags: int, pooled_elements: int, ranks: int) -> float:
    """What a rank would send in a step the way of SparseOperationKit.

    Args:
      keys: ids of its batch, repeated ones too.
      bags: bags of its batch: rows times lookups.
      pooled_elements: elements of all pooled rows of its batch.
      ranks: number of ranks.
    """
    asked = _KEY_BYTES * keys + _LENGTH_BYTES * bags
    partial_sums_and_gradients = 2 * _FLOAT_BYTES * pooled_elements
    return (ranks - 1) * (asked + partial_sums_and_gradients)


def collectives_in(graph_def: Any, train_op: str) -> Dict[str, int]:
    """How many collectives of each kind a step of a graph has, with those that run ahead of it.

    Args:
      graph_def: the graph that runs.
      train_op: name of what a step runs.
    """
    nodes = {node.name: node for node in graph_def.node}
    waiting = [train_op] + [node.name for node in graph_def.node if node.op == _PUT]
    seen = set(waiting)
    counts: Dict[str, int] = {}
    while waiting:
        node = nodes[waiting.pop()]
        if node.op in _KINDS:
            counts[node.op] = counts.get(node.op, 0) + 1
        sources = {name.lstrip("^").split(":")[0] for name in node.input}
        waiting.extend(sources - seen)
        seen |= sources
    return counts


def all_to_alls(collectives: Dict[str, int]) -> int:
    """How many of the collectives of a step are all-to-all messages."""
    return sum(collectives.get(kind, 0) for kind in ALL_TO_ALLS)


def _sent(op: tf.Operation, rank: int, ranks: int) -> tf.Tensor:
    tensor = op.inputs[0]
    size = tf.size(tensor, out_type=tf.int64) * tensor.dtype.size
    if op.type == ALL_GATHER:
        return size * (ranks - 1)
    if op.type == ALL_REDUCE:
        return size * 2 * (ranks - 1) // ranks
    splits = tf.cast(op.inputs[1], tf.int64)
    to_others = tf.reduce_sum(splits) - splits[rank]
    return size * to_others // tf.maximum(tf.reduce_sum(splits), 1)
