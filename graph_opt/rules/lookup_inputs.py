"""The inputs of the fused op that can replace a lookup.

    layout     positions                dense_shape    written by
    sparse     indices [K, rank]        [rank]         safe_embedding_lookup_sparse
    bags                                               the same, of dense ids [B, k]
    segments   rows [K], ascending                     embedding_lookup_sparse
    dense                                              embedding_lookup, gather

The fused op must compute the same values. The patterns of `rules/lookups` have matched every node
between these inputs and the lookup's output; this module checks whether the op supports what they
found.
"""

from __future__ import annotations

import dataclasses
from typing import Iterable, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_name
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.dense_bags import dense_bags
from graph_opt.rules.dynamic_lookups import Insert, insert_of
from graph_opt.rules.lookup import OR_NAN, Lookup, Table
from graph_opt.rules.match.surroundings import enclosing_control_flow
from graph_opt.rules.match.table import read_nodes

SPARSE = "sparse"
BAGS = "bags"
SEGMENTS = "segments"
DENSE = "dense"
TABLE_DTYPES = (
    tf.float32.as_datatype_enum,
    tf.float16.as_datatype_enum,
    tf.bfloat16.as_datatype_enum,
)
_FLOAT = tf.float32.as_datatype_enum
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
_HIGHEST_RANK = 8  # of tensors that TensorFlow's own kernels take
_NOT_BY_IDS = (
    apis.GATHER_ND,
    apis.SCATTERED_EMBEDDING_LOOKUP_SPARSE,
    apis.MARKED,
)


@dataclasses.dataclass(frozen=True)
class LookupInputs:
    """The inputs of one op that looks up, combines and fills as the lookup does.

    Attributes:
      layout: `sparse`, `bags`, `segments` or `dense`.
      ids: [K]; bags: [B, k], each row of which is combined; dense: any static rank of at least 1,
        each id giving one row of the result.
      positions: sparse: the SparseTensor's indices [K, rank], int64; segments: the row of each id
        [K], int32 or int64; bags and dense: None.
      dense_shape: Shape of sparse ids, int64 [rank]; else None.
      weights: [K] of float32, or None.
      combiner: `sum`, `mean` or `sqrtn`; `sum` if rows are not combined. With `OR_NAN` at its end,
        rows are divided by the sum of their weights even where that is 0.
      safe: Whether to drop ids < 0 and, unless the combiner is `sum`, weights that are not > 0.
      default_id: The table row that stands in where a row of the input has no ids; -1 for zeros.
      partition_strategy: As in `Lookup`, for a table of several shards.
      insert: Whether keys of a dynamic table that have no row get one; None for a static table.
    """

    layout: str
    ids: TensorRef
    positions: Optional[TensorRef]
    dense_shape: Optional[TensorRef]
    weights: Optional[TensorRef]
    combiner: str
    safe: bool
    default_id: int = -1
    partition_strategy: str = "mod"
    insert: Optional[Insert] = None

    def tensors(self) -> Tuple[TensorRef, ...]:
        """The inputs that are present."""
        inputs = (self.ids, self.positions, self.dense_shape, self.weights)
        return tuple(tensor for tensor in inputs if tensor is not None)


def lookup_inputs(view: GraphView, lookup: Lookup) -> LookupInputs:
    """Returns the inputs of the op that can replace a lookup.

    Args:
      view: A graph with static shapes, as `as_graph_def(add_shapes=True)` writes them.
      lookup: One of its lookups.

    Raises:
      Refusal: rows_not_by_ids, rows_clipped, table_not_supported, shards_uneven,
        pooled_dtype_differs, lookup_differs, lookup_by_key_differs, lookup_waits,
        lookup_in_control_flow, ids_not_supported.

    Example:
      >>> lookup_inputs(view, find_lookups(view).lookups[0]).layout
      'sparse'
    """
    _require_rows_by_ids(lookup)
    for table in lookup.tables:
        _require_table(table, is_combined=lookup.combiner is not None)
    _require_shards(lookup)
    _require_same_dtype(view, lookup)
    _require_pattern(lookup)
    inputs = _of_dense_ids(view, lookup, _read(lookup))
    inputs = dataclasses.replace(inputs, insert=insert_of(view, lookup))
    _require_ids(view, inputs)
    _require_rank(view, lookup, inputs)
    reads = [name for gather in lookup.gathers for name in read_nodes(view, gather)]
    _require_no_waiting(view, [*lookup.nodes, *reads])
    _require_every_step(view, lookup, inputs)
    _require_no_waiting(view, _own_constants(view, lookup, inputs))
    return inputs


def _read(lookup: Lookup) -> LookupInputs:
    strategy = lookup.partition_strategy or "mod"
    given = lookup.given
    if lookup.combiner is None:
        ids = given["ids"]
        return LookupInputs(DENSE, ids, None, None, None, "sum", False, partition_strategy=strategy)
    is_sparse = lookup.api in (
        apis.SAFE_EMBEDDING_LOOKUP_SPARSE,
        apis.GROUP_EMBEDDING_LOOKUP_SPARSE,
    )
    return LookupInputs(
        layout=SPARSE if is_sparse else SEGMENTS,
        ids=given["ids"],
        positions=given["indices" if is_sparse else "segments"],
        dense_shape=given.get("dense_shape"),
        weights=given.get("weights"),
        combiner=lookup.combiner + (OR_NAN if lookup.divides_by_zero and not is_sparse else ""),
        safe=is_sparse and lookup.drops_invalid,
        default_id=lookup.default_id,
        partition_strategy=strategy,
    )


def _of_dense_ids(view: GraphView, lookup: Lookup, inputs: LookupInputs) -> LookupInputs:
    """The same inputs without a SparseTensor, where one is made of dense ids."""
    is_plain = inputs.layout == SPARSE and inputs.safe and inputs.weights is None
    if not is_plain or lookup.tables[0].is_dynamic:
        return inputs
    ids = dense_bags(view, lookup)
    if ids is None:
        return inputs
    return dataclasses.replace(inputs, layout=BAGS, ids=ids, positions=None, dense_shape=None)


def _require_pattern(lookup: Lookup) -> None:
    """Refuses what the search accepts because it only needs to know where a lookup ends."""
    if lookup.unknown:
        raise lookup.unknown[0]
    if lookup.is_counted:
        need = "as many bags as the segment ids imply"
        raise Refusal(
            "lookup_differs", at=lookup.output.node, need=need, saw="an explicit number of bags"
        )


def _require_rows_by_ids(lookup: Lookup) -> None:
    if lookup.api == apis.FOREIGN_LOOKUP:
        need, saw = "rows of a variable", "a hash table of TFRA, which only its own ops can read"
        raise Refusal("rows_not_by_ids", at=lookup.output.node, need=need, saw=saw)
    if lookup.api in _NOT_BY_IDS:
        need = "a lookup of whole rows by their ids"
        raise Refusal("rows_not_by_ids", at=lookup.output.node, need=need, saw=lookup.api)
    if lookup.max_norm:
        need = "rows exactly as they are in the table"
        raise Refusal("rows_clipped", at=lookup.output.node, need=need, saw="max_norm")


def _require_table(table: Table, is_combined: bool) -> None:
    rank, fixed = len(table.shape or ()), table.fixed_shape
    ranks = (2,) if is_combined else range(1, _HIGHEST_RANK + 1)
    known = rank in ranks and fixed is not None and None not in fixed and 0 not in fixed
    if not known or table.dtype not in TABLE_DTYPES:
        raise Refusal(
            "table_not_supported",
            at=table.name,
            need="a table of static shape, of float32, float16 or bfloat16"
            + (", [rows, width] if rows are combined" if is_combined else ""),
            saw="shape {} of {}".format(table.shape, dtype_name(table.dtype)),
        )


def _require_shards(lookup: Lookup) -> None:
    """Refuses shards unless the first `V % P` of them have one row more than the others.

    That is the layout that tf.nn.embedding_lookup expects for either strategy.
    """
    first, count = lookup.tables[0], len(lookup.tables)
    rows = [table.shape[0] or 0 for table in lookup.tables if table.shape]
    piece, longer = divmod(sum(rows), count)
    wanted = [piece + 1] * longer + [piece] * (count - longer)
    alike = all(
        table.row_shape is not None
        and (table.row_shape, table.dtype, table.is_resource, table.is_dynamic)
        == (first.row_shape, first.dtype, first.is_resource, first.is_dynamic)
        for table in lookup.tables
    )
    if (rows != wanted and not first.is_dynamic) or not alike:
        raise Refusal(
            "shards_uneven",
            at=first.name,
            need="shards of {} rows, otherwise alike".format(wanted),
            saw="rows {}{}".format(rows, "" if alike else ", of different widths or types"),
        )


def _require_same_dtype(view: GraphView, lookup: Lookup) -> None:
    dtype = view.dtype(lookup.output)
    if dtype != lookup.tables[0].dtype:
        raise Refusal(
            "pooled_dtype_differs",
            at=lookup.output.node,
            need="rows of {}, the table's type".format(dtype_name(lookup.tables[0].dtype)),
            saw="an unknown type" if dtype is None else dtype_name(dtype),
        )


def _require_ids(view: GraphView, inputs: LookupInputs) -> None:
    """Refuses dtypes and ranks that the op does not accept."""
    _require_dtype(view, inputs.ids, _INTEGERS, "ids of int32 or int64")
    if inputs.positions is not None:
        _require_dtype(view, inputs.positions, _INTEGERS, "row numbers of int32 or int64")
    if inputs.weights is not None:
        _require_dtype(view, inputs.weights, (_FLOAT,), "weights of float32")
        if inputs.layout == SEGMENTS:  # SparseFillEmptyRows takes vectors only
            _require_known_rank(view, inputs.weights, "weights of rank 1", (1,))
    if inputs.layout == DENSE:
        _require_known_rank(view, inputs.ids, "ids of a static rank, at least 1", None)


def _require_dtype(view: GraphView, tensor: TensorRef, allowed: Tuple[int, ...], need: str) -> None:
    dtype = view.dtype(tensor)
    if dtype not in allowed:
        saw = "an unknown type" if dtype is None else dtype_name(dtype)
        raise Refusal("ids_not_supported", at=tensor.node, need=need, saw=saw)


def _require_known_rank(
    view: GraphView, tensor: TensorRef, need: str, ranks: Optional[Tuple[int, ...]]
) -> None:
    shape = view.shape(tensor)
    if not shape or (ranks is not None and len(shape) not in ranks):
        saw = "an unknown one" if shape is None else "shape {}".format(shape)
        raise Refusal("ids_not_supported", at=tensor.node, need=need, saw=saw)


def _require_rank(view: GraphView, lookup: Lookup, inputs: LookupInputs) -> None:
    """Refuses an output whose static shape has another rank or width than the op's output."""
    shape = view.shape(lookup.output)
    if shape is None:
        return
    rank: Optional[int] = 2
    if inputs.layout == DENSE:
        rank = len(view.shape(inputs.ids) or ()) + 1
    elif inputs.dense_shape is not None:
        entries = view.shape(inputs.dense_shape)
        rank = entries[0] if entries else None
    row = (lookup.tables[0].shape or (None, None))[1:]
    last = shape[len(shape) - len(row) :]
    if rank is not None:
        rank += len(row) - 1
    if rank not in (None, len(shape)) or any(a not in (None, b) for a, b in zip(last, row)):
        need = "a result of {} dimensions, the last of sizes {}".format(rank, row)
        raise Refusal("lookup_differs", at=lookup.output.node, need=need, saw=str(shape))


def _own_constants(view: GraphView, lookup: Lookup, inputs: LookupInputs) -> List[str]:
    """Constants such as a gather's axis.

    The first op of a `tf.control_dependencies` waits, and lets those wait that take its result.
    """
    if lookup.api == apis.GROUP_EMBEDDING_LOOKUP_SPARSE:
        return []  # An op of ours takes nothing but the arguments of its lookups.
    given = {tensor.node for tensor in inputs.tensors()}
    read = {tensor.node for name in lookup.nodes for tensor in view.inputs(name)}
    return sorted(name for name in read - given if view.op(name) == "Const")


def _require_no_waiting(view: GraphView, nodes: Iterable[str]) -> None:
    waiting = [name for name in nodes if view.controls(name)]
    if waiting:
        raise Refusal(
            "lookup_waits",
            at=waiting[0],
            need="a lookup that waits for nothing but its inputs",
            saw="a control input from {}".format(view.controls(waiting[0])[0]),
        )


def _require_every_step(view: GraphView, lookup: Lookup, inputs: LookupInputs) -> None:
    sources = dict.fromkeys(tensor.node for tensor in inputs.tensors())
    found = enclosing_control_flow(view, sources)
    if found is not None:
        raise Refusal(
            "lookup_in_control_flow",
            at=lookup.output.node,
            need="a lookup outside tf.cond and tf.while_loop",
            saw="ids through {} '{}'".format(view.op(found), found),
        )
