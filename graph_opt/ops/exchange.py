"""Group lookups in tables whose rows are spread over ranks, each of which looks up its own bags.

    rank                               owner
    prepare   ids -> requests   -->    gather           requests of all ranks -> rows
    combine   rows -> pooled    <--
    combine's gradient          -->    gather's gradient   one IndexedSlices for each shard

The arrows are all-to-all messages: one with requests, one with rows and one with the rows'
gradients, whatever the number of tables and their widths. Each row travels once in each. Ids,
layouts and columns are those of `graph_opt.ops.group_embedding`; the tables of an exchange have the
same dtype. How a message travels is not these ops' concern. Its gradient is the same message in the
other direction, so automatic differentiation builds the third one, in graphs and on eager tapes.

Every rank builds the same nodes, whatever it owns: it passes its part of every table, which has no
rows where it owns nothing and then gets an empty gradient; which parts are served is the attribute
`served`. So all ranks take part in all messages, also in those of gradients.
"""

from __future__ import annotations

import re
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.ops.dynamic_table import BY_KEY, BY_KEY_1000
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_lookup
from graph_opt.ops.library import load_library, op_for
from graph_opt.ops.message_names import IDS_SUFFIX, ROWS_SUFFIX
from graph_opt.ops.packed_embedding import (
    ShardPlacement,
    combine_arguments,
    group_embedding_prepare,
)

# What AgreedStatus (ops_src/exchange/message_header.h) says.
_AGREED = re.compile(r"^(rank \d+: |the input of all ranks has ended)", re.MULTILINE)

AllToAll = Callable[[tf.Tensor, tf.Tensor, str], Tuple[tf.Tensor, tf.Tensor]]


class ExchangeRequests(NamedTuple):
    """What a lookup asks of all ranks.

    Attributes:
      message: int64. A header and the requests to rank 0, 1, ..., one after another.
      splits: int32 [N]. How many numbers go to each rank.
      inverse: For `exchange_combine`.
      counts: For `exchange_combine`.
    """

    message: tf.Tensor
    splits: tf.Tensor
    inverse: tf.Tensor
    counts: tf.Tensor


class GatheredRows(NamedTuple):
    """The rows that all ranks asked for.

    Attributes:
      rows: Of the tables' dtype. The elements for rank 0, 1, ..., one after another.
      splits: int32 [N]. How many elements go to each rank.
    """

    rows: tf.Tensor
    splits: tf.Tensor


def exchange_lookup(
    parts: Sequence[tf.Tensor],
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    rank: int,
    table_widths: Sequence[int],
    dtypes: Sequence[Any],
    all_to_all: AllToAll,
    name: str,
    input_ended: Optional[tf.Tensor] = None,
    place: str = "",
    insert: Sequence[Any] = (),
    filtered: bool = True,
) -> List[tf.Tensor]:
    """Pools the rows of all lookups, wherever their rows are. All ranks must call it alike.

    Args:
      parts: [T]. This rank's part of each table, [rows, D]: resource handles, or all tensors. A
        part has no rows where this rank has no shard of the table. Gradient tapes must be told of
        the variables (`compat.eager.handle_of`).
      ids: What this rank looks up; any number of bags, none included.
      attributes: How it is looked up: the same on all ranks.
      placement: The rank of each shard; each rank has at most one of each table.
      rank: Number of this rank.
      table_widths: [T]. D of each table.
      dtypes: [T]. Dtype of each table: all the same.
      all_to_all: `(tensor, splits, message name) -> (received, received splits)`, differentiable
        with respect to `tensor`. Not called if there is one rank.
      name: Of the exchange, from `message_name`; its messages' names start with it.
      input_ended: Boolean scalar: whether this rank's input has ended, so that it looks up nothing.
        Once it has on all ranks, the lookup fails with OutOfRangeError on all of them.
      place: What makes `name` unique in the process, put before it; see `joined_exchanges.joined`.
      insert: As for `group_embedding_prepare`.
      filtered: As for `group_embedding_prepare`.

    Returns:
      [B, D] for each lookup, or with columns one [B, columns_width]: what `group_embedding_lookup`
      returns with all shards in one place. Gradients with respect to `parts` are IndexedSlices with
      this rank's rows, ascending, and the sums over all ranks, added in the order of the ranks; of
      dynamic tables with this rank's keys, in the order in which ranks have named them.
      Rows that only lookups without a gradient read are not among them, as in TensorFlow's.

    Raises:
      ValueError: A rank has several shards of a table, or dtypes differ.
    """
    if len(set(dtypes)) != 1:
        raise ValueError(
            "the tables of an exchange have dtypes {}; need one dtype, so make an exchange for "
            "each".format(", ".join(sorted({tf.as_dtype(dtype).name for dtype in dtypes})))
        )
    served = _served(attributes, placement, rank)
    by_key = tables_by_key(attributes)
    if placement.num_servers == 1 and not any(by_key):
        results = 1 if attributes.columns else len(attributes.lookup_tables)
        return group_embedding_lookup(
            parts, ids, attributes, [dtypes[0]] * results, name=name + "_lookup"
        )
    requests = exchange_prepare(
        ids,
        attributes,
        placement,
        table_widths,
        input_ended=input_ended,
        insert=insert,
        filtered=filtered,
        exchange=place + name,
    )
    if placement.num_servers == 1:
        all_to_all = _stay
    received, splits = all_to_all(requests.message, requests.splits, name + IDS_SUFFIX)
    gathered = exchange_gather(
        parts,
        received,
        splits,
        attributes.table_names,
        table_widths,
        dtypes[0],
        served,
        exchange=place + name,
        by_key=by_key,
    )
    rows, splits = all_to_all(gathered.rows, gathered.splits, name + ROWS_SUFFIX)
    return exchange_combine(rows, splits, requests, ids, attributes, placement, table_widths)


def tables_by_key(attributes: GroupAttributes) -> List[bool]:
    """Of each table, whether it is a dynamic one, whose ids are keys."""
    strategies = attributes.partition_strategies
    if not strategies:
        return [False] * len(attributes.table_names)
    return [strategy in (BY_KEY, BY_KEY_1000) for strategy in strategies]


def _stay(tensor: tf.Tensor, splits: tf.Tensor, name: str) -> Tuple[tf.Tensor, tf.Tensor]:
    """The message of a rank that is alone."""
    return tensor, splits


def exchange_failure(
    code: Any, text: Any, num_ranks: int, all_to_all: AllToAll, exchange: str
) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sends an error to all ranks in place of the requests of an exchange.

    Their lookup, or this call where ranks fail in the same step, then ends with the same error on
    all ranks: "rank R: " and the text. No rank sends further messages for this step. A rank must
    not call it after it has sent its requests.

    Args:
      code: int32 scalar, a code of `tf.errors`, not 0.
      text: string scalar.
      num_ranks: Number of ranks.
      all_to_all: As for `exchange_lookup`.
      exchange: Name of the exchange.

    Returns:
      Code (int32 scalar) and text (string scalar) of the error that all ranks agree on: of several
      the end of input before a cancellation before others, then the lowest rank's. And whether any
      rank has sent requests (bool scalar).

    Example:
      >>> exchange_failure(tf.errors.DATA_LOSS, "row 17 is torn", transport.size,
      ...                  transport.all_to_all, "exchange")
    """
    requests, splits = load_library().exchange_failure(code=code, text=text, num_ranks=num_ranks)
    received = all_to_all(requests, splits, exchange + IDS_SUFFIX)
    agreed = load_library().exchange_status(requests=[received[0]], splits=[received[1]])
    codes = tf.gather(received[0], tf.cumsum(received[1], exclusive=True))
    return agreed[0], agreed[1], tf.reduce_any(tf.equal(codes, 0))


def is_agreed(text: str) -> bool:
    """Whether the text of an error is one that ranks have agreed on in place of a batch."""
    return _AGREED.search(text) is not None


def exchange_prepare(
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    table_widths: Sequence[int],
    pool_on_owner: Optional[str] = None,
    name: Optional[str] = None,
    input_ended: Optional[tf.Tensor] = None,
    insert: Sequence[Any] = (),
    filtered: bool = True,
    exchange: str = "",
) -> ExchangeRequests:
    """Finds what to ask of each rank: rows, each once, or bags to pool.

    The message is ready once those of the step's other exchanges are.

    Args:
      ids: What is looked up.
      attributes: How it is looked up.
      placement: Where the shards are. A rank may have none.
      table_widths: Width of each table.
      pool_on_owner: Whether owners pool the bags of tables of one shard: `always`, `never`, or
        `auto`: whenever that is less to send. Results and gradients are bitwise equal. None is
        `auto` if no lookup has weights, else `never`: the gradient of weights needs the rows.
      name: Name of the node.
      input_ended: As for `exchange_lookup`.
      insert: As for `group_embedding_prepare`.
      filtered: As for `group_embedding_prepare`.
      exchange: For `graph_opt.ops.joined_exchanges.joined`.

    Returns:
      The requests. The op fails with InvalidArgumentError, naming the table, row and id, if an id
      is out of range.
    """
    if pool_on_owner is None:
        pool_on_owner = "never" if any(attributes.weighted) else "auto"
    prepared = group_embedding_prepare(
        ids, attributes, placement, table_widths, pool_on_owner, name, insert, filtered
    )
    message, splits = load_library().exchange_requests(
        requests=prepared.requests,
        input_ended=[] if input_ended is None else [input_ended],
        exchange=exchange,
    )
    return ExchangeRequests(message, splits, prepared.inverse, prepared.counts)


def exchange_gather(
    tables: Sequence[tf.Tensor],
    requests: tf.Tensor,
    splits: tf.Tensor,
    table_names: Sequence[str],
    table_widths: Sequence[int],
    dtype: Any,
    served: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    exchange: str = "",
    by_key: Sequence[bool] = (),
) -> GatheredRows:
    """Reads, on their owner, the rows that all ranks ask for.

    Args:
      tables: Shards on this rank, [rows, D]: resource handles, or all tensors.
      requests: int64. The headers and requests from all ranks, rank after rank.
      splits: int32 [N]. How many numbers each rank has sent.
      table_names: For error messages, one for each shard.
      table_widths: Width of each shard.
      dtype: Dtype of the shards.
      served: Numbers of the shards that requests are about, in the order of
        `ShardPlacement.shards_of`; None for all. The others get an empty gradient.
      name: Name of the node.
      exchange: For `graph_opt.ops.joined_exchanges.joined`.
      by_key: Whether each shard is of a dynamic table, for which requests name keys; empty: none.

    Returns:
      The rows for each rank.
    """
    arguments = dict(
        table_names=list(table_names),
        table_widths=list(table_widths),
        served=list(range(len(tables)) if served is None else served),
        exchange=exchange,
        by_key=list(by_key) if any(by_key) else [],
        name=name,
    )
    if tables[0].dtype == tf.resource:
        arguments["T"] = dtype
    rows, row_splits = op_for(tables, "exchange_gather")(
        list(tables), requests, splits, **arguments
    )
    return GatheredRows(rows, row_splits)


def exchange_combine(
    rows: tf.Tensor,
    splits: tf.Tensor,
    requests: ExchangeRequests,
    ids: GroupIds,
    attributes: GroupAttributes,
    placement: ShardPlacement,
    table_widths: Sequence[int],
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Pools the rows that all ranks sent.

    Args:
      rows: From `exchange_gather` of each rank, rank after rank.
      splits: int32 [N]. How many elements each rank has sent.
      requests: The requests, prepared from the same ids.
      ids: What is looked up.
      attributes: How it is looked up.
      placement: Where the shards are.
      table_widths: Width of each table.
      name: Name of the node.

    Returns:
      The same as `group_embedding_lookup`, bitwise.
    """
    pooled = load_library().exchange_combine(
        rows=rows,
        splits=splits,
        inverse=requests.inverse,
        counts=requests.counts,
        num_servers=placement.num_servers,
        name=name,
        **combine_arguments(ids, attributes, placement, table_widths, rows.dtype),
    )
    return list(pooled)


def _served(attributes: GroupAttributes, placement: ShardPlacement, rank: int) -> List[int]:
    """The tables that a rank has a shard of."""
    served: List[int] = []
    for table, table_name in enumerate(attributes.table_names):
        owners = [placement.servers[shard] for shard in attributes.shards_of(table)]
        if len(set(owners)) < len(owners):
            raise ValueError(
                "the {} shards of table {!r} are on ranks {}; need at most one on each".format(
                    len(owners), table_name, owners
                )
            )
        if rank in owners:
            served.append(table)
    return served
