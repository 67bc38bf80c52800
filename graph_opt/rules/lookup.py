"""The data types of this room: tables, lookups and the result of a search for lookups.

Dimensions: V rows of a table, D embedding width, B rows in the batch, K ids of one lookup in the
batch, U unique ids among them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import Shape, TensorRef

EMBEDDING_LOOKUP = "tf.nn.embedding_lookup"
EMBEDDING_LOOKUP_SPARSE = "tf.nn.embedding_lookup_sparse"
SAFE_EMBEDDING_LOOKUP_SPARSE = "tf.nn.safe_embedding_lookup_sparse"
SCATTERED_EMBEDDING_LOOKUP_SPARSE = "tf.contrib.layers.scattered_embedding_lookup_sparse"
GROUP_EMBEDDING_LOOKUP_SPARSE = "graph_opt.group_embedding_lookup_sparse"
EXCHANGED_LOOKUP = "graph_opt.sok.lookup_sparse"
FOREIGN_LOOKUP = "tfra.dynamic_embedding.embedding_lookup"
# Functions of ours, whose lookups are one op as the model writes them.
FUSED_APIS = (GROUP_EMBEDDING_LOOKUP_SPARSE, EXCHANGED_LOOKUP)
GATHER = "tf.gather"
GATHER_ND = "tf.gather_nd"
MARKED = "marked"
# Columns without a table, which are not lookups.
INDICATOR_COLUMN = "tf.feature_column.indicator_column"
BUCKETIZED_COLUMN = "tf.feature_column.bucketized_column"
COLUMNS = (INDICATOR_COLUMN, BUCKETIZED_COLUMN)
# At the end of a combiner's name in ops of ours: weights that add up to 0 give nan.
OR_NAN = "_or_nan"


@dataclasses.dataclass(frozen=True)
class Table:
    """A variable that rows are read from: a whole table, or one shard of a partitioned one.

    Attributes:
      name: Name of the variable op.
      op: Its type: `VariableV2`, `Variable` or `VarHandleOp`; `Const` in a frozen graph.
      dtype: DataType number of its elements.
      shape: Static shape, usually (V, D), with None for unknown dimensions; None for unknown rank.
      device: Device string of the variable op; '' if it requests none.
      is_resource: Whether it is a resource variable.
      partitions: Number of shards of the partitioned table; 1 for a whole table.
      is_dynamic: Whether its rows go by key, and come and go: V is then unknown.
    """

    name: str
    op: str
    dtype: int
    shape: Shape
    device: str
    is_resource: bool
    partitions: int = 1
    is_dynamic: bool = False

    @property
    def row_shape(self) -> Shape:
        """Static shape of a row; None for unknown rank, or a scalar."""
        return self.shape[1:] if self.shape else None

    @property
    def fixed_shape(self) -> Shape:
        """The part of the shape that stays: a dynamic table's is that of a row."""
        return self.row_shape if self.is_dynamic else self.shape


@dataclasses.dataclass(frozen=True)
class Lookup:
    """One embedding lookup of a graph.

    Attributes:
      api: The public function that wrote this part of the graph: one of the constants of this
        module. Layers and feature columns are reported as the function that they call.
      tables: The variables it reads, shards in order.
      ids: The tensors with the ids that the function was given (values of a SparseTensor).
      output: The last tensor of the recognised pattern: [B, D] if combined, else ids.shape + [D].
      gathers: The nodes that read the tables.
      nodes: All nodes that belong to the lookup, including the gathers but not the reads of the
        tables; in no particular but in a deterministic order.
      name: Label for people: the scope that the nodes share.
      combiner: `sum`, `mean` or `sqrtn`; None if rows are not combined, or not all the same way.
      weighted: Whether rows are multiplied by weights before they are combined.
      partition_strategy: `mod` or `div`, of dynamic tables `key` or `key1000` (the shard is the key
        modulo the number of shards, or that of the key modulo 1000); None for a table that is not
        partitioned.
      max_norm: Whether rows are clipped to a norm.
      given: The arguments of the function, under the names that its pattern binds: `ids`,
        `segments`, `indices`, `dense_shape`, `weights`.
      default_id: The table row that stands in for bags without ids, if they are filled; -1 for
        zeros.
      divides_by_zero: Whether rows are divided by a sum of weights even where that is 0, as with
        TensorFlow 1: the result is then nan or infinite.
      is_counted: Whether the number of bags is an explicit input.
      drops_invalid: Of `GROUP_EMBEDDING_LOOKUP_SPARSE`, whether ids < 0 and weights that are not
        > 0 are dropped; else such ids are errors.
      unknown: Requirements of the pattern that could not be checked because static shapes are not
        known.
      larger: Why the lookup is not part of a larger one, if most of a larger pattern matched.
    """

    api: str
    tables: Tuple[Table, ...]
    ids: Tuple[TensorRef, ...]
    output: TensorRef
    gathers: Tuple[str, ...]
    nodes: Tuple[str, ...]
    name: str = ""
    combiner: Optional[str] = None
    weighted: bool = False
    partition_strategy: Optional[str] = None
    max_norm: bool = False
    given: Mapping[str, TensorRef] = dataclasses.field(default_factory=dict)
    default_id: int = -1
    divides_by_zero: bool = False
    is_counted: bool = False
    drops_invalid: bool = True
    unknown: Tuple[Refusal, ...] = ()
    larger: Optional[Refusal] = None

    @property
    def is_complete(self) -> bool:
        """Whether an op of ours does it, and others cannot be added to that op."""
        return self.api in FUSED_APIS and not self.given

    def extended(self, output: str, nodes: Tuple[str, ...], **changes: Any) -> Lookup:
        """The lookup with these nodes added, ending in output 0 of node `output`."""
        own = dict.fromkeys(self.nodes + nodes)
        return dataclasses.replace(self, output=TensorRef(output, 0), nodes=tuple(own), **changes)


def name_of_combiner(combiner: str) -> str:
    """What TensorFlow's functions call a combiner of an op of ours."""
    return combiner[: -len(OR_NAN)] if combiner.endswith(OR_NAN) else combiner


def tables_apart(shards: Sequence[Table]) -> List[Tuple[Table, ...]]:
    """The shards of each table of a lookup, of which it has one after the other."""
    found = []
    rest = tuple(shards)
    while rest:
        count = rest[0].partitions
        found.append(rest[:count])
        rest = rest[count:]
    return found


@dataclasses.dataclass(frozen=True)
class LookupSearch:
    """What `find_lookups` found.

    Attributes:
      lookups: In the order in which the graph first reads their tables; marked tensors last.
      refusals: Reads of tables that passes must not touch, with the reason.
    """

    lookups: Tuple[Lookup, ...]
    refusals: Tuple[Refusal, ...]
