"""What became of lookups, tensors and stages, as data for people."""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Tuple

MOVED = "moved"
LEFT = "left in main"
FUSED_PART = "fused"
DEFERRED_PART = "deferred"
STOCK_PART = "stock"
NO_PART = "none"


@dataclasses.dataclass(frozen=True)
class LookupOutcome:
    """One recognised lookup: where it is and what became of it.

    Attributes:
      name: Readable label, from the output's name.
      api: The TensorFlow call that made it, such as `tf.nn.embedding_lookup_sparse`.
      tables: Names of the variables it reads.
      combiner: `sum`, `mean`, `sqrtn`, or None if nothing is combined.
      output: Name of the tensor with the result.
      device: Device of the table, '' if none is requested.
      outcome: `moved` or `left in main`.
      stage: Name of the stage that computes it, '' if it was left in main.
      refusal: code, node, need and saw; None if it moved.
      count: How many of the model's lookups this is: an op in the model itself may do several.
      most_missed: How many updates its rows may have missed when a step uses them, at most: 0 if
        they are exact. None if it was left in main.
    """

    name: str
    api: str
    tables: Tuple[str, ...]
    combiner: Optional[str]
    output: str
    device: str
    outcome: str
    stage: str = ""
    refusal: Optional[Dict[str, str]] = None
    count: int = 1
    most_missed: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class FusedLookup:
    """One lookup of the model, and which of its parts were fused.

    Attributes:
      name: Readable label.
      api: The TensorFlow call that made it.
      tables: Names of the variables it reads.
      combiner: `sum`, `mean`, `sqrtn`, or None if nothing is combined.
      output: Name of the tensor with the result in the model.
      group: Node of the fused op that does this lookup, '' if it was not fused.
      gradient: `fused`, `stock`, or `none` if nothing trains it.
      update: The same for the optimizer's update of its tables; `deferred` if it is fused and moves
        rows without a gradient only when they are next read.
      refusals: Why parts were not fused: code, node, need and saw.
      average: `deferred` if averages of its tables over time move so, `stock` if TensorFlow moves
        them, `none` if there are none.
      count: How many of the model's lookups this is: an op in the model itself may do several.
    """

    name: str
    api: str
    tables: Tuple[str, ...]
    combiner: Optional[str]
    output: str
    group: str = ""
    gradient: str = NO_PART
    update: str = NO_PART
    refusals: Tuple[Dict[str, str], ...] = ()
    average: str = NO_PART
    count: int = 1


@dataclasses.dataclass(frozen=True)
class TableOutcome:
    """A table that was to be sharded across ranks.

    Attributes:
      name: Name of the variable.
      shape: Shape of the whole table; None if the rank is unknown.
      slots: Names of the optimizer's slots, which are divided with it.
      lookups: How many lookups read it.
      bytes: Of the whole table and its slots, as far as shapes are known.
      bytes_here: What this rank holds of them.
      rule: Which rank has which rows, '' if every rank has the whole table.
      refusal: code, node, need and saw; None if it could be sharded.
    """

    name: str
    shape: Optional[Tuple[Optional[int], ...]]
    slots: Tuple[str, ...]
    lookups: int
    bytes: int
    bytes_here: int
    rule: str = ""
    refusal: Optional[Dict[str, str]] = None


@dataclasses.dataclass(frozen=True)
class ServedTable:
    """A table whose rows a served graph looks up.

    Attributes:
      name: Of the variable, without its parts.
      rows: Of all parts; None if not known, as of a dynamic table.
      width: Elements of a row; None if not known.
      dtype: As rows are stored, such as `int8`.
      bytes: Of all rows as they are stored; None if not known.
      source: Where its rows are: `variables/`, `table files` or `the graph`.
      lookups: How many lookups of the model read it.
    """

    name: str
    rows: Optional[int]
    width: Optional[int]
    dtype: str
    bytes: Optional[int]
    source: str
    lookups: int


@dataclasses.dataclass(frozen=True)
class DenseReader:
    """A node that reads or writes whole tables whose update is deferred.

    Attributes:
      node: Its name.
      op: Its op type.
      tables: Names of the variables whose rows are all caught up before it runs.
      in_each_step: Whether the steps that update them run it, too.
    """

    node: str
    op: str
    tables: Tuple[str, ...]
    in_each_step: bool


@dataclasses.dataclass(frozen=True)
class BoundaryTensor:
    """A tensor that crosses from prefetch to main each step.

    Attributes:
      name: Its name in the user's graph.
      take: The output of the stage's take that carries it.
      dtype: TensorFlow's dtype name.
      shape: Static shape, with None for an unknown dimension; None if the rank is unknown.
      bytes: Bytes a step; None if a dimension is unknown.
      bytes_per_row: Bytes for each row if only the number of rows is unknown.
    """

    name: str
    take: str
    dtype: str
    shape: Optional[Tuple[Optional[int], ...]]
    bytes: Optional[int]
    bytes_per_row: Optional[int]


@dataclasses.dataclass(frozen=True)
class StageReport:
    """One prefetch stage.

    Attributes:
      name: Name of the stage and of its buffer.
      io_source: The node that its batches come from.
      io_stage: Stage whose buffer it takes from, '' if no stage of ours fills that buffer.
      inferred: Whether the pass inserted that IO stage.
      nodes: Number of nodes in the prefetch region.
      boundary: What crosses.
      python_functions: How many of the nodes call Python, as `tf.py_func` does: they are called for
        batches that no step uses, too, if training ends before its input.
    """

    name: str
    io_source: str
    io_stage: str
    inferred: bool
    nodes: int
    boundary: Tuple[BoundaryTensor, ...]
    python_functions: int = 0


@dataclasses.dataclass(frozen=True)
class PackedTransfer:
    """Tensors that travel between two tasks as one.

    Attributes:
      source: Device that sends.
      target: Device that receives.
      dtype: TensorFlow's dtype name.
      tensors: How many tensors; without packing, each needs a call of its own.
    """

    source: str
    target: str
    dtype: str
    tensors: int
