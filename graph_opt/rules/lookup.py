"""The words of this room: table, lookup, and what a search for lookups gives back.

Dimensions: V rows of a table, D embedding width, B rows in the batch, K ids of one lookup in the
batch, U unique ids among them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import Shape, TensorRef

EMBEDDING_LOOKUP = "tf.nn.embedding_lookup"
EMBEDDING_LOOKUP_SPARSE = "tf.nn.embedding_lookup_sparse"
SAFE_EMBEDDING_LOOKUP_SPARSE = "tf.nn.safe_embedding_lookup_sparse"
SCATTERED_EMBEDDING_LOOKUP_SPARSE = "tf.contrib.layers.scattered_embedding_lookup_sparse"
GROUP_EMBEDDING_LOOKUP_SPARSE = "graph_opt.group_embedding_lookup_sparse"
GATHER = "tf.gather"
GATHER_ND = "tf.gather_nd"
MARKED = "marked"
# Columns without a table, which are no lookups.
INDICATOR_COLUMN = "tf.feature_column.indicator_column"
BUCKETIZED_COLUMN = "tf.feature_column.bucketized_column"
COLUMNS = (INDICATOR_COLUMN, BUCKETIZED_COLUMN)


@dataclasses.dataclass(frozen=True)
class Table:
    """One variable that rows are read from; each shard of a partitioned variable is one.

    Attributes:
      name: Name of the variable op.
      op: Its type: `VariableV2`, `Variable` or `VarHandleOp`.
      dtype: DataType number of its elements.
      shape: Static shape, usually (V, D); None for an unknown dimension; None for unknown rank.
      device: Device string of the variable op, '' where none is asked for.
      is_resource: Whether it is a resource variable.
      partitions: Number of shards that this one and its siblings form; 1 is a whole table.
    """

    name: str
    op: str
    dtype: int
    shape: Shape
    device: str
    is_resource: bool
    partitions: int = 1


@dataclasses.dataclass(frozen=True)
class Lookup:
    """One embedding lookup of a graph.

    Attributes:
      api: The public function whose graph this is: one of the constants of this module. Layers and
        feature columns show as the function that they call.
      tables: The variables it reads, shards in order.
      ids: The tensors with the ids that the function was given (values of a SparseTensor).
      output: The last tensor of the recognised pattern: [B, D] once combined, else ids.shape + [D].
      gathers: The nodes that read the tables.
      nodes: All nodes recognised as the lookup's own, the gathers among them, the tables' reads
        not; in no particular order but always the same.
      name: Label for people: the scope that the nodes share.
      combiner: `sum`, `mean`, `sqrtn`, or None where rows are not combined, or not alike.
      weighted: Whether rows are multiplied by weights before they are combined.
      partition_strategy: `mod` or `div`; None for a table in one piece.
      max_norm: Whether rows are clipped to a norm.
      given: What the function was given, by the names that its pattern has for it: `ids`,
        `segments`, `indices`, `dense_shape`, `weights`.
      default_id: The row of bags without ids, where they are filled; -1 is zeros.
      division: The node that divides by a sum of weights and gives nan or inf for 0; None where
        there is no division, or one that gives 0.
      is_counted: Whether the number of bags is given.
      unknown: What the pattern needs and only static shapes could tell, which are not known.
      larger: Why the lookup is no part of a larger one, where most of such a one is there.
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
    division: Optional[str] = None
    is_counted: bool = False
    unknown: Tuple[Refusal, ...] = ()
    larger: Optional[Refusal] = None

    def grown(self, output: str, nodes: Tuple[str, ...], **changes: Any) -> Lookup:
        """The lookup with one more piece of a pattern around it, ending in output 0 of a node."""
        own = dict.fromkeys(self.nodes + nodes)
        return dataclasses.replace(self, output=TensorRef(output, 0), nodes=tuple(own), **changes)


@dataclasses.dataclass(frozen=True)
class LookupSearch:
    """What `find_lookups` found.

    Attributes:
      lookups: In the order of their first table read in the graph; marked ones last.
      refusals: Reads of tables that are no lookups a pass may touch, with the reason.
    """

    lookups: Tuple[Lookup, ...]
    refusals: Tuple[Refusal, ...]
