"""Group lookups: one op that pools rows of many tables, its gradients, and its fused update.

L lookups in T tables, each table in one or more shards (variables); B rows in a lookup's result, K
ids, D the width of a table. What the ids mean depends on the layout of the lookup:

    layout   ids          positions             shapes
    sparse   values [K]   indices [K, rank]     dense_shape [rank]
    ragged   values [K]   row splits [B + 1]    not read
    dense    [B], [B, W]  not read              not read
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.library import load_library, op_for
from graph_opt.ops.optimizers import default_flags

SPARSE = "sparse"
RAGGED = "ragged"
DENSE = "dense"
COMBINERS = ("sum", "mean", "sqrtn")
NO_DEFAULT = -1
# Attribute of lookups that were replaced by a larger one; the passes use the same name.
SUPERSEDED = "_superseded_by_graph_opt"


class GroupIds(NamedTuple):
    """The ids of a group's lookups.

    Attributes:
      ids: [L]. int32 or int64, shaped as the layout requires.
      positions: [L]. int64.
      shapes: [L]. int64.
      weights: float32, one for each id; only those of the weighted lookups, in their order.
    """

    ids: List[tf.Tensor]
    positions: List[tf.Tensor]
    shapes: List[tf.Tensor]
    weights: List[tf.Tensor]

    @classmethod
    def of(cls, inputs: Sequence[tf.Tensor], num_lookups: int) -> GroupIds:
        """The ids among the inputs of a node, of which they are the last ones."""
        cuts = [i * num_lookups for i in range(4)]
        return cls(*(list(inputs[begin:end]) for begin, end in zip(cuts, [*cuts[1:], None])))

    def inputs(self) -> Dict[str, List[tf.Tensor]]:
        """The inputs, under the names that all ops of a group lookup use."""
        return dict(self._asdict())


class GroupAttributes(NamedTuple):
    """The attributes that all ops of a group lookup share.

    Attributes:
      lookup_tables: [L]. Number of the table that each lookup reads.
      table_shards: [T]. Number of shards of each table.
      table_names: [T]. For error messages.
      combiners: [L]. sum, mean or sqrtn. Of weighted lookups that are not safe also mean_or_nan or
        sqrtn_or_nan, which give nan or infinite numbers where weights add up to 0, instead of 0.
      layouts: [L]. sparse, ragged or dense.
      weighted: [L]. Whether the lookup has weights.
      default_ids: [L]. The table row that stands in for an empty bag; -1 for zeros.
      partition_strategies: Empty, or [T]: mod, div or blocks, how ids are assigned to the shards of
        each table; empty: mod. With blocks, shards have consecutive ids, whatever their sizes. For
        dynamic tables that are elsewhere key or key1000 (`graph_opt.ops.dynamic_table`).
      safe: Whether to drop ids < 0 and weights that are not > 0, as
        tf.nn.safe_embedding_lookup_sparse does.
      columns: Empty, or [L]: the results of all lookups form one tensor [B, columns_width], as do
        their gradients; lookup i has the D columns starting at columns[i], and together they cover
        the tensor. The lookups then have the same B and dtype.
      columns_width: Used only with columns.
      filled_ids: Empty, or [L], for gradients and updates, and for exchanges, which ask for the
        rows of theirs: the row that gets a zero gradient from an empty bag, as with
        tf.nn.safe_embedding_lookup_sparse; -1 for none.
    """

    lookup_tables: Sequence[int]
    table_shards: Sequence[int]
    table_names: Sequence[str]
    combiners: Sequence[str]
    layouts: Sequence[str]
    weighted: Sequence[bool]
    default_ids: Sequence[int]
    partition_strategies: Sequence[str] = ()
    safe: bool = True
    columns: Sequence[int] = ()
    columns_width: int = 0
    filled_ids: Sequence[int] = ()

    @classmethod
    def of(cls, op: tf.Operation) -> GroupAttributes:
        """The attributes of a node."""
        texts = ("table_names", "combiners", "layouts", "partition_strategies")
        values = {field: op.get_attr(field) for field in cls._fields}
        for field in texts:
            values[field] = _decoded(values[field])
        return cls(**values)

    def only(self, lookups: Sequence[int]) -> GroupAttributes:
        """The attributes of some of the lookups, with the tables that they read.

        Args:
          lookups: Numbers of the lookups to keep, ascending; with columns, all of them.
        """
        tables = self.tables_of(lookups)
        return self._replace(
            lookup_tables=[tables.index(self.lookup_tables[i]) for i in lookups],
            table_shards=[self.table_shards[t] for t in tables],
            table_names=[self.table_names[t] for t in tables],
            partition_strategies=[self.strategy_of(t) for t in tables],
            combiners=[self.combiners[i] for i in lookups],
            layouts=[self.layouts[i] for i in lookups],
            weighted=[self.weighted[i] for i in lookups],
            default_ids=[self.default_ids[i] for i in lookups],
            filled_ids=[self.filled_ids[i] for i in lookups] if self.filled_ids else [],
        )

    def tables_of(self, lookups: Sequence[int]) -> List[int]:
        """Numbers of the tables that these lookups read, in ascending order."""
        return sorted({self.lookup_tables[i] for i in lookups})

    def strategy_of(self, table: int) -> str:
        """How ids are assigned to the shards of a table: mod, div or blocks."""
        return self.partition_strategies[table] if self.partition_strategies else "mod"

    def shards_of(self, table: int) -> range:
        """Numbers of a table's shards among all shards."""
        first = sum(self.table_shards[:table])
        return range(first, first + self.table_shards[table])


def group_embedding_lookup(
    tables: Sequence[tf.Tensor],
    ids: GroupIds,
    attributes: GroupAttributes,
    dtypes: Sequence[Any],
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Pools the rows of all lookups.

    Args:
      tables: The shards of each table, [rows, D]: resource handles, or all tensors. Those of int8
        are [rows, 4 + D], as `graph_opt.table_files.low_precision` writes them.
      ids: What is looked up.
      attributes: How it is looked up.
      dtypes: [L], or [1] with columns. The dtype of each lookup's table (float32, float16 or
        bfloat16), or float32.
      name: Name of the node.

    Returns:
      [B, D] for each lookup, or with columns one [B, columns_width]. The op fails with
      InvalidArgumentError, naming the table, row and id, if an id is out of range.

    Example:
      >>> pooled = group_embedding_lookup([table.handle], ids, attributes, [tf.float32])
    """
    arguments = {"pooled_dtypes": list(dtypes), **ids.inputs(), **attributes._asdict()}
    library = load_library()
    if tables[0].dtype == tf.resource:
        pooled = library.resource_group_embedding_lookup(tables, name=name, **arguments)
    else:
        arguments["num_shards"] = len(tables)
        pooled = library.group_embedding_lookup(tables, name=name, **arguments)
    return list(pooled)


class ShardGradient(NamedTuple):
    """The gradient of one shard.

    Attributes:
      indices: int64, the rows that were looked up, unique and ascending.
      values: [rows looked up, D].
    """

    indices: tf.Tensor
    values: tf.Tensor


def group_embedding_gradient(
    ids: GroupIds,
    attributes: GroupAttributes,
    table_rows: Any,
    gradients: Sequence[tf.Tensor],
    table_dtypes: Sequence[Any],
    name: Optional[str] = None,
) -> List[ShardGradient]:
    """Sums the gradients of pooled rows by table row.

    Args:
      ids: What was looked up.
      attributes: How it was looked up.
      table_rows: int64 vector, the number of rows of each shard.
      gradients: [L], or [1] with columns. The gradients of the pooled rows.
      table_dtypes: The dtype of each shard.
      name: Name of the node.

    Returns:
      The gradient of each shard. The occurrences of a row are added in the order of lookups and
      ids, so equal inputs give bitwise equal results for any number of threads.
    """
    indices, values = load_library().group_embedding_grad(
        table_rows=table_rows,
        gradients=list(gradients),
        table_dtypes=list(table_dtypes),
        num_shards=len(table_dtypes),
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )
    return [ShardGradient(*pair) for pair in zip(indices, values)]


def group_embedding_weights_gradient(
    tables: Sequence[tf.Tensor],
    ids: GroupIds,
    attributes: GroupAttributes,
    gradients: Sequence[tf.Tensor],
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Gradients of a group lookup's weights, with the shapes of the weights.

    Args:
      tables: The shards of each table.
      ids: What was looked up.
      attributes: How it was looked up.
      gradients: [L], or [1] with columns. The gradients of the pooled rows.
      name: Name of the node.
    """
    arguments = {"gradients": list(gradients), **ids.inputs(), **attributes._asdict()}
    library = load_library()
    if tables[0].dtype == tf.resource:
        results = library.resource_group_embedding_weights_grad(tables, name=name, **arguments)
    else:
        arguments["num_shards"] = len(tables)
        results = library.group_embedding_weights_grad(tables, name=name, **arguments)
    return list(results)


def group_embedding_apply(
    optimizer: str,
    tables: Sequence[tf.Tensor],
    slots: Sequence[tf.Tensor],
    hyperparameters: Sequence[tf.Tensor],
    ids: GroupIds,
    attributes: GroupAttributes,
    gradients: Sequence[tf.Tensor],
    flags: Optional[Sequence[str]] = None,
    use_locking: bool = False,
    row_states: Sequence[str] = (),
    name: Optional[str] = None,
) -> tf.Operation:
    """Updates the rows that were looked up, directly from the gradients of the pooled rows.

    Args:
      optimizer: Name of its spec (`optimizer_specs`).
      tables: The shards of each table, float32: resource handles, or all references.
      slots: The optimizer's first slot of every shard, then its second slot of every shard, ...
      hyperparameters: float32 scalars, in the order of the spec.
      ids: What was looked up.
      attributes: How it was looked up.
      gradients: [L], or [1] with columns. The gradients of the pooled rows.
      flags: The optimizer's flags that are set; None for the defaults of its spec.
      use_locking: Whether to lock the variables exclusively.
      row_states: For a deferred update (`graph_opt.ops.deferred_rows`), one for each shard.
      name: Name of the node.

    Returns:
      The operation.
    """
    return op_for(tables, "group_embedding_apply")(
        tables=list(tables),
        slots=list(slots),
        hyperparameters=list(hyperparameters),
        gradients=list(gradients),
        optimizer=optimizer,
        flags=list(default_flags(optimizer) if flags is None else flags),
        use_locking=use_locking,
        row_states=list(row_states),
        name=name,
        **ids.inputs(),
        **attributes._asdict(),
    )


def _decoded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_decoded(one) for one in value]
    return value.decode("utf-8") if isinstance(value, bytes) else value
