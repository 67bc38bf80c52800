"""From inputs of each rank's own batch to those of the whole batch, for the features of a rank.

    before  each rank: its bags of all features
    after   each rank: all bags of its features, those of rank 0 first

Two messages carry all features, whatever their number: the lengths of bags, and the ids.
"""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import ID_DTYPES
from graph_opt.sharding.guard import guard_graph, guarded_eagerly
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import transport_or_init

_MESSAGE = "graph_opt_inputs"


class _Bags(NamedTuple):
    """The input of one feature.

    Attributes:
      ids: int64 [K].
      lengths: int64 [B].
      given: As it was passed, for its kind and dtype.
    """

    ids: tf.Tensor
    lengths: tf.Tensor
    given: Any


@tf.autograph.experimental.do_not_convert
def dp_to_mp_input(dp_inputs: Any, rank_to_local_features: Mapping[int, Sequence[Any]]) -> Any:
    """Brings the whole batch of each feature to the ranks that look it up.

    Args:
      dp_inputs: This rank's batch: ids of each feature, as a dict or a list; dense [b] or [b, hot],
        ragged or sparse [b, (ids)], of int32 or int64. All features of a rank have the same b, and
        ranks may have different ones.
      rank_to_local_features: For each rank the keys, or the positions, of its features. Several
        ranks may have the same feature.

    Returns:
      The features of this rank, as a dict or a list in the order of its features: of the same kind
      as they were, with the batches of rank 0, 1, ... one after another.

    Raises:
      KeyError: There is no such feature.
      TypeError: Ids are of an unsupported kind or dtype.
      ValueError: A rank is missing from the features, the shape of ids is not supported, or the
        features of a rank have batches of different sizes.
      tf.errors.InvalidArgumentError: At run time, dense ids of a feature differ in `hot` by rank.

    Example:
      >>> layer = DistributedEmbedding(embeddings, dp_input=False)
      >>> features = {rank: ids for rank, ids in enumerate(layer.strategy.input_ids_list)}
      >>> pooled = layer(dp_to_mp_input(inputs, features))
    """
    transport = transport_or_init()
    is_dict = isinstance(dp_inputs, Mapping)
    missing = [rank for rank in range(transport.size) if rank not in rank_to_local_features]
    if missing:
        raise ValueError("rank_to_local_features lacks rank {}".format(missing[0]))
    features = [list(rank_to_local_features[rank]) for rank in range(transport.size)]
    mine = features[transport.rank]
    used = sorted({one for of_rank in features for one in of_rank}, key=str)
    for feature in used:
        if feature not in (dp_inputs if is_dict else range(len(dp_inputs))):
            raise KeyError("there is no input {!r}".format(feature))
    if transport.size == 1:
        found = [dp_inputs[feature] for feature in mine]
    else:
        bags = {feature: _bags(feature, dp_inputs[feature]) for feature in used}
        for of_rank in features:
            _check_batches(of_rank, bags)
        sent = [[bags[feature] for feature in of_rank] for of_rank in features]
        guard_graph(transport)
        with tf.name_scope("graph_opt/"), guarded_eagerly(transport):
            found = _received(sent, transport, mine)
    return dict(zip(mine, found)) if is_dict else found


def _received(sent: List[List[_Bags]], transport: Transport, features: List[Any]) -> List[Any]:
    name = transport.message_name(_MESSAGE)
    lengths, lengths_splits = _exchanged(
        [[_lengths_of_all(of_rank)] for of_rank in sent], transport, name + "_lengths"
    )
    ids, ids_splits = _exchanged(
        [[bags.ids for bags in of_rank] for of_rank in sent], transport, name + "_ids"
    )
    mine = sent[transport.rank]
    if not mine:
        return []
    of_ranks = []
    by_rank = zip(
        tf.split(lengths, lengths_splits, num=transport.size),
        tf.split(ids, ids_splits, num=transport.size),
    )
    for its_lengths, its_ids in by_rank:
        of_features = tf.reshape(its_lengths, [len(mine), -1])
        parts = tf.split(its_ids, tf.reduce_sum(of_features, axis=1), num=len(mine))
        of_ranks.append((tf.unstack(of_features, num=len(mine)), parts))
    return [
        _as_given(
            features[place],
            bags.given,
            tf.concat([parts[place] for _, parts in of_ranks], axis=0),
            tf.concat([its_lengths[place] for its_lengths, _ in of_ranks], axis=0),
        )
        for place, bags in enumerate(mine)
    ]


def _lengths_of_all(bags: Sequence[_Bags]) -> tf.Tensor:
    """Lengths of each feature's bags; stacked, which fails at run time if batches differ."""
    if not bags:
        return tf.zeros([0], tf.int64)
    return tf.reshape(tf.stack([one.lengths for one in bags]), [-1])


def _check_batches(features: Sequence[Any], bags: Mapping[Any, _Bags]) -> None:
    sizes = {feature: bags[feature].lengths.shape[0] for feature in features}
    known = [(feature, size) for feature, size in sizes.items() if size is not None]
    for feature, size in known[1:]:
        if size != known[0][1]:
            raise ValueError(
                "inputs {!r} and {!r} of one rank have batches of {} and {} samples".format(
                    known[0][0], feature, known[0][1], size
                )
            )


def _exchanged(parts: List[List[tf.Tensor]], transport: Transport, name: str) -> Any:
    """Sends the tensors of each rank, one after another; returns what comes, and its splits."""
    nothing = tf.zeros([0], tf.int64)
    together = [tf.concat([nothing, *of_rank], axis=0) for of_rank in parts]
    splits = tf.stack([tf.size(one) for one in together])
    return transport.all_to_all(tf.concat(together, axis=0), splits, name)


def _bags(feature: Any, ids: Any) -> _Bags:
    if isinstance(ids, (tf.SparseTensor, tf.SparseTensorValue)):
        sparse = tf.convert_to_tensor_or_sparse_tensor(ids)
        rows, num_rows = sparse.indices[:, 0], sparse.dense_shape[0]
        bags = tf.RaggedTensor.from_value_rowids(sparse.values, rows, num_rows, validate=False)
        return _bags(feature, bags)._replace(given=_Sparse(sparse.dtype))
    if isinstance(ids, tf.RaggedTensor):
        if ids.ragged_rank != 1 or ids.flat_values.shape.rank not in (None, 1):
            raise _wrong_shape(feature, ids)
        lengths = tf.cast(ids.row_lengths(), tf.int64)
        return _Bags(_as_int64(feature, ids.flat_values), lengths, ids)
    dense = tf.convert_to_tensor(ids)
    if dense.shape.rank not in (1, 2):
        raise _wrong_shape(feature, dense)
    hot = tf.shape(dense, out_type=tf.int64)[1] if dense.shape.rank == 2 else 1
    lengths = tf.fill(tf.shape(dense)[:1], tf.cast(hot, tf.int64))
    return _Bags(tf.reshape(_as_int64(feature, dense), [-1]), lengths, dense)


class _Sparse(NamedTuple):
    """Ids that came as a SparseTensor."""

    dtype: Any


def _as_given(feature: Any, given: Any, ids: tf.Tensor, lengths: tf.Tensor) -> Any:
    ids = tf.cast(ids, given.dtype)
    if isinstance(given, _Sparse):
        return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False).to_sparse()
    if isinstance(given, tf.RaggedTensor):
        return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)
    if given.shape.rank == 1:
        return ids
    hot = tf.shape(given, out_type=tf.int64)[1]
    same = tf.debugging.assert_equal(
        lengths,
        hot,
        message="ranks have different numbers of ids a bag of input {!r}".format(feature),
    )
    with tf.control_dependencies([] if same is None else [same]):
        dense = tf.reshape(ids, tf.stack([tf.size(lengths, out_type=tf.int64), hot]))
    dense.set_shape([None, given.shape[1]])
    return dense


def _as_int64(feature: Any, ids: tf.Tensor) -> tf.Tensor:
    if ids.dtype not in ID_DTYPES:
        raise TypeError(
            "input {!r} has dtype {}; need int32 or int64".format(feature, ids.dtype.name)
        )
    return tf.cast(ids, tf.int64)


def _wrong_shape(feature: Any, ids: Any) -> ValueError:
    return ValueError(
        "input {!r} has shape {}; need [b], [b, hot] or ragged or sparse [b, (ids)]".format(
            feature, ids.shape
        )
    )


_dp_to_mp_input = dp_to_mp_input  # its name in distributed-embeddings
