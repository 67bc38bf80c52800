"""Results that ranks compute for the batches of all, on their way back."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.layer_kinds import table_dtype
from graph_opt.distributed_embeddings.strategy import TABLE_PARALLEL, DistEmbeddingStrategy
from graph_opt.reporting.stderr import say
from graph_opt.sharding.guard import guard_graph, guarded_eagerly
from graph_opt.sharding.transport import Transport

_MESSAGE = "graph_opt_outputs"


def send_outputs(
    own: Sequence[tf.Tensor],
    weights: Sequence[Any],
    strategy: DistEmbeddingStrategy,
    transport: Transport,
    layer: str,
    wire: Optional[Any] = None,
) -> List[tf.Tensor]:
    """Sends each rank its share of the batch.

    Args:
      own: [B, D] of the inputs that this rank looks up, `strategy.input_ids_list[rank]`; B is the
        batch of all ranks.
      weights: Variables of this rank, or none. All ranks must send the gradients of what they got,
        also one that looks up nothing: these then get empty ones.
      strategy: Which rank has which inputs.
      transport: The ranks.
      layer: Name of the layer, for errors.
      wire: Dtype in which results travel; None: the widest of the tables' dtypes. Each result then
        arrives in the dtype of its table, as ranks do not see what the layers of others return.

    Returns:
      [B / N, D] for each input.

    Raises:
      ValueError: A result is no matrix.
      tf.errors.InvalidArgumentError: At run time, B cannot be divided by the number of ranks.
    """
    ranks = transport.size
    if ranks == 1:
        return _by_input(own, strategy)
    for place, one in enumerate(own):
        if one.shape.rank != 2:
            raise ValueError(
                "result {} of layer {!r} has shape {}; with dp_input=False each sample needs one "
                "row: give the embedding a combiner, or one id a sample".format(
                    place, layer, one.shape
                )
            )
    dtypes = [_dtypes(strategy, rank, wire) for rank in range(ranks)]
    dtype = max((one for of_rank in dtypes for one in of_rank), key=lambda one: one.size)
    for place, (one, kept) in enumerate(zip(own, dtypes[transport.rank])):
        if wire is None and one.dtype.size > kept.size:
            say(
                "result {} of layer {!r} is {}, and arrives as {}, the dtype of its table".format(
                    place, layer, one.dtype.name, kept.name
                )
            )
    with tf.control_dependencies([_checked_batch(own[0], ranks, layer)] if own else []):
        shares = [tf.reshape(tf.cast(one, dtype), [ranks, -1]) for one in own]
    if shares:
        sent = tf.reshape(tf.concat(shares, axis=1), [-1])
    else:
        none = tf.zeros([0], tf.int64)
        rows = [tf.reshape(tf.cast(tf.gather(one, none), dtype), [-1]) for one in weights]
        sent = tf.concat([tf.zeros([0], dtype), *rows], axis=0)
    splits = tf.fill([ranks], tf.size(sent) // ranks)
    guard_graph(transport)
    with guarded_eagerly(transport):
        received, sizes = transport.all_to_all(sent, splits, transport.message_name(_MESSAGE))
    results: List[tf.Tensor] = []
    widths = [[piece.width for piece in strategy.pieces_of_inputs(rank)] for rank in range(ranks)]
    shares = tf.split(received, sizes, num=ranks)
    for of_rank, dtypes_of_rank, share in zip(widths, dtypes, shares):
        if of_rank:
            samples = tf.size(share) // sum(of_rank)
            parts = tf.split(share, samples * tf.constant(of_rank), num=len(of_rank))
            results += [
                tf.cast(tf.reshape(part, [-1, width]), kept)
                for part, width, kept in zip(parts, of_rank, dtypes_of_rank)
            ]
    return _by_input(results, strategy)


def _dtypes(strategy: DistEmbeddingStrategy, rank: int, wire: Optional[Any]) -> List[Any]:
    """Of what arrives from a rank, by input."""
    tables = [
        strategy.table_groups[TABLE_PARALLEL][piece.table]
        for piece in strategy.pieces_of_inputs(rank)
    ]
    return [wire or table_dtype(strategy.global_configs[table]) for table in tables]


def _by_input(results: Sequence[tf.Tensor], strategy: DistEmbeddingStrategy) -> List[tf.Tensor]:
    """Joins columns of results, which are in the order of ranks."""
    ordered = [results[place] for place in strategy.rev_tp_ids]
    for first, end in strategy.sliced_out_ranges:
        ordered[first:end] = [tf.concat(ordered[first:end], axis=-1)]
    return ordered


def _checked_batch(result: tf.Tensor, ranks: int, layer: str) -> Any:
    batch = tf.shape(result)[0]
    return tf.debugging.assert_equal(
        batch % ranks,
        0,
        message="the global batch of layer {!r} is not divisible by {} ranks".format(layer, ranks),
        data=[batch],
    )
