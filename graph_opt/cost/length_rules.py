"""How long outputs are whose static shapes do not say it: a rule for each op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, Optional, Sequence

from graph_opt.cost.assumptions import IDS_PER_ROW
from graph_opt.cost.packed_sizes import packed_length
from graph_opt.cost.row_counts import batch, different_ids, number_of_ids
from graph_opt.graph.inlined_calls import RETURNED
from graph_opt.graph.view import TensorRef
from graph_opt.ops.stage_nodes import BUFFER_TAKE
from graph_opt.rules.op_names import COUNTED_SEGMENT_REDUCTIONS, SEGMENT_REDUCTIONS, UNIQUES

if TYPE_CHECKING:
    from graph_opt.cost.tensor_sizes import TensorSizes

Rule = Callable[["TensorSizes", TensorRef, int], float]

# What finds out how much there is only when it runs.
_BY_VALUES = frozenset(
    ["DeserializeSparse", "DeserializeManySparse", "StringSplit", "StringSplitV2", "ParseExample"]
    + ["ParseExampleV2", "ParseSingleExample", "ParseSequenceExample", "SparseSlice", "SparseCross"]
    + ["SparseCrossV2", "SparseCrossHashed", "SparseConcat", "ListDiff", "SetSize", "Range"]
    + ["DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation"]
    + ["StringNGrams", "RaggedRange", "NonMaxSuppressionV3", "DecodeRaw", "PyFunc", "EagerPyFunc"]
    + ["TensorListStack", "Unpack", "UnicodeDecode", "SparseToDense", "Bincount", "UnravelIndex"]
)


def source(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    """A batch, as it enters the graph: rows, or the ids of all rows."""
    if axis:
        raise sizes.unknown(tensor, "dimension {} is not known".format(axis))
    if sizes.ids.tables(tensor):
        return number_of_ids(sizes, tensor)
    return batch(sizes, tensor)


def like_inputs(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    """As long as an input of the same rank, as it is elementwise and by layers."""
    view = sizes.view
    op = view.op(tensor.node)
    if op in _BY_VALUES or not view.inputs(tensor.node):
        return by_values(sizes, tensor, axis)
    shape = view.shape(tensor)
    for one in view.inputs(tensor.node):
        given = view.shape(one)
        if shape is not None and given is not None and len(given) == len(shape):
            if given[axis] is None or op in ("MatMul", "BiasAdd"):
                return sizes.length(one, axis)
    raise sizes.unknown(tensor, "no rule says how long what {} returns is".format(op))


def by_values(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    """As many as there are ids, if these are the ids of a lookup."""
    named = sizes.assumptions.ids_of((str(tensor),))
    if axis == 0 and (sizes.ids.tables(tensor) or named is not None):
        return number_of_ids(sizes, tensor)
    raise sizes.unknown(tensor, "{} finds its size out when it runs".format(_op(sizes, tensor)))


def _op(sizes: TensorSizes, tensor: TensorRef) -> str:
    return sizes.view.op(tensor.node)


def _like(slot: int) -> Rule:
    def rule(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
        return sizes.length(_input(sizes, tensor, slot), axis)

    return rule


def _first_axis_like(slot: int, rest: Optional[int] = None) -> Rule:
    """The first dimension is that of one input, the others those of another."""

    def rule(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
        if axis == 0:
            return sizes.length(_input(sizes, tensor, slot), 0)
        if rest is None:
            raise sizes.unknown(tensor, "dimension {} is not known".format(axis))
        return sizes.length(_input(sizes, tensor, rest), axis)

    return rule


def _first_axis_is(slot: int, rest: int) -> Rule:
    """The first dimension is the value of one input, the others those of another."""

    def rule(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
        if axis == 0:
            return sizes.value(_input(sizes, tensor, slot))
        return sizes.length(_input(sizes, tensor, rest), axis)

    return rule


def _shaped_by(slot: int) -> Rule:
    """The shape is the value of an input."""

    def rule(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
        return sizes.value(_input(sizes, tensor, slot), axis)

    return rule


def _input(sizes: TensorSizes, tensor: TensorRef, slot: int) -> TensorRef:
    found = sizes.view.input(tensor.node, slot)
    if found is None:
        raise sizes.unknown(tensor, "{} lacks input {}".format(_op(sizes, tensor), slot))
    return found


def _taken(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    put = sizes.records.put_input(tensor)
    if put is None:
        return source(sizes, tensor, axis)
    return sizes.length(put, axis)


def _where(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    tables = sizes.ids.tables(tensor)
    if sizes.assumptions.ids_of((*tables, str(tensor))) is not None:
        return number_of_ids(sizes, tensor)
    count = sizes.elements(_input(sizes, tensor, 0))
    sizes.note(
        "no value of a dense input is missing, as a feature column would leave it out "
        "({} tells how many ids there are)".format(IDS_PER_ROW)
    )
    return count


def _unique(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    given = _input(sizes, tensor, 0)
    count = sizes.length(given, 0)
    if tensor.index == 1:
        return count
    return _different(sizes, given, count)


# Ops whose output has ids of one of their inputs: of this one.
_IDS_OF = {
    "Reshape": 0,
    "Identity": 0,
    "Cast": 0,
    "Squeeze": 0,
    "GatherV2": 0,
    "SparseFillEmptyRows": 1,
}


def _different(sizes: TensorSizes, given: TensorRef, count: float) -> float:
    origin = given
    for _ in range(20):
        op = _op(sizes, origin)
        if op in UNIQUES:
            return count
        tables = sizes.ids.tables(origin)
        if tables:
            return different_ids(sizes, tables[0], count)
        carried = sizes.records.carried(origin)
        if carried is None and op not in _IDS_OF:
            break
        origin = carried or _input(sizes, origin, _IDS_OF[op])
    return different_ids(sizes, _table_beside(sizes, given) or str(given), count)


def _table_beside(sizes: TensorSizes, given: TensorRef) -> str:
    """The table that a node is colocated with: of gradients, the one that they are of."""
    for use in sizes.view.uses(given):
        for node in (use.consumer, given.node):
            colocated = sizes.view.attribute(node, "_class")
            if colocated is not None and colocated.list.s:
                text = colocated.list.s[0].decode("utf-8", "replace")
                return text[len("loc:@") :] if text.startswith("loc:@") else ""
    return ""


def _rows_of_batch(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    if axis == 0:
        sizes.note("each row of a batch has ids, and so a pooled row")
        return batch(sizes, tensor)
    return sizes.length(_input(sizes, tensor, 0), axis)


def _gathered(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    indices = _input(sizes, tensor, 1)
    shape = sizes.view.shape(indices)
    rank = 1 if shape is None else len(shape)
    if axis < rank:
        return sizes.length(indices, axis)
    return sizes.length(_input(sizes, tensor, 0), axis - rank + 1)


def _partitioned(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    parts = sizes.view.attribute(tensor.node, "num_partitions")
    length = sizes.length(_input(sizes, tensor, 0), axis)
    if axis or parts is None or parts.i < 1:
        return length
    sizes.note("the ids of a partitioned table fall evenly to its parts")
    return length / parts.i


def _stitched(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    inputs = sizes.view.inputs(tensor.node)
    parts = inputs[len(inputs) // 2 :]
    return _joined(sizes, parts, axis, axis == 0)


def _concatenated(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    inputs = sizes.view.inputs(tensor.node)
    first = _op(sizes, tensor) == "Concat"
    along, parts = (inputs[0], inputs[1:]) if first else (inputs[-1], inputs[:-1])
    constant = sizes.view.constant(along)
    shape = sizes.view.shape(tensor)
    if constant is None or not parts or shape is None:
        raise sizes.unknown(tensor, "what is joined, and how, is not known")
    wanted = int(constant.reshape(-1)[0])
    return _joined(sizes, parts, axis, axis == (wanted + len(shape) if wanted < 0 else wanted))


def _joined(sizes: TensorSizes, parts: Sequence[TensorRef], axis: int, adds: bool) -> float:
    lengths = (sizes.length(part, axis) for part in parts)
    return sum(lengths) if adds else next(lengths)


def _reshaped(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    shape = sizes.view.shape(tensor)
    if shape is None or shape.count(None) != 1:
        return sizes.value(_input(sizes, tensor, 1), axis)
    known = 1
    for size in shape:
        known *= 1 if size is None else size
    return sizes.elements(_input(sizes, tensor, 0)) / max(known, 1)


def _sliced(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    """A slice of columns keeps rows; of others only static shapes tell."""
    if axis == 0 and _takes_all_rows(sizes, tensor):
        return sizes.length(_input(sizes, tensor, 0), 0)
    raise sizes.unknown(tensor, "it is a slice of unknown length")


def _takes_all_rows(sizes: TensorSizes, tensor: TensorRef) -> bool:
    masks = [sizes.view.attribute(tensor.node, key) for key in ("begin_mask", "end_mask")]
    return all(mask is not None and mask.i & 1 for mask in masks)


def _split(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    """A part of a tensor: as long as an input says, along the axis that another one says."""
    along = sizes.view.constant(_input(sizes, tensor, 2))
    shape = sizes.view.shape(tensor)
    if along is None or shape is None:
        raise sizes.unknown(tensor, "along which dimension it is split is not known")
    if axis != int(along.reshape(-1)[0]) % max(len(shape), 1):
        return sizes.length(_input(sizes, tensor, 0), axis)
    return sizes.value(_input(sizes, tensor, 1), tensor.index)


def _expanded(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    constant = sizes.view.constant(_input(sizes, tensor, 1))
    shape = sizes.view.shape(tensor)
    if constant is None or shape is None:
        raise sizes.unknown(tensor, "where a dimension is added is not known")
    added = int(constant.reshape(-1)[0]) % max(len(shape), 1)
    return sizes.length(_input(sizes, tensor, 0), axis - (axis > added))


def _transposed(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    order = _input(sizes, tensor, 1)
    return sizes.length(_input(sizes, tensor, 0), int(sizes.value(order, axis)))


def _tiled(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    times = sizes.value(_input(sizes, tensor, 1), axis)
    return sizes.length(_input(sizes, tensor, 0), axis) * times


def _squeezed(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    given = _input(sizes, tensor, 0)
    shape = sizes.view.shape(given) or ()
    kept = [place for place, size in enumerate(shape) if size != 1]
    if axis >= len(kept):
        raise sizes.unknown(tensor, "which dimensions go is not known")
    return sizes.length(given, kept[axis])


def _filled_rows(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    if tensor.index == 2:
        return batch(sizes, tensor)
    return sizes.length(_input(sizes, tensor, 1), axis if tensor.index == 1 else 0)


def _gradient_of_segments(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    if axis:
        return sizes.length(_input(sizes, tensor, 0), axis)
    ids = _input(sizes, tensor, 1)
    return _different(sizes, ids, sizes.length(ids, 0))


def _packed_rule(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    return packed_length(sizes, tensor)


def _like_own_input(sizes: TensorSizes, tensor: TensorRef, axis: int) -> float:
    return sizes.length(_input(sizes, tensor, tensor.index), axis)


RULES: Dict[str, Rule] = {
    **dict.fromkeys(["IteratorGetNext", "IteratorGetNextSync", "OneShotIterator"], source),
    **dict.fromkeys(["Placeholder", "PlaceholderV2", "QueueDequeue", "QueueDequeueV2"], source),
    **dict.fromkeys(["QueueDequeueUpTo", "QueueDequeueUpToV2", "Unstage"], source),
    "PlaceholderWithDefault": source,
    BUFFER_TAKE: _taken,
    "Where": _where,
    **dict.fromkeys(UNIQUES, _unique),
    **dict.fromkeys([*SEGMENT_REDUCTIONS, *COUNTED_SEGMENT_REDUCTIONS], _rows_of_batch),
    **dict.fromkeys(["SegmentSum", "SegmentMean", "SegmentMax"], _rows_of_batch),
    **dict.fromkeys(["GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup"], _rows_of_batch),
    **dict.fromkeys(["GroupEmbeddingCombine", "ExchangeCombine"], _rows_of_batch),
    **dict.fromkeys(["GroupEmbeddingPrepare", "GroupEmbeddingPackGradients"], _packed_rule),
    **dict.fromkeys(["StageServedRows", "TakeServedRows", "NextServedBatch"], _packed_rule),
    **dict.fromkeys(["GroupEmbeddingGather", "ResourceGroupEmbeddingGather"], _packed_rule),
    **{op + "Grad": _first_axis_is(3, 0) for op in SEGMENT_REDUCTIONS},
    **{op + "GradV2": _gradient_of_segments for op in SEGMENT_REDUCTIONS},
    **dict.fromkeys(["Gather", "GatherV2", "ResourceGather"], _gathered),
    "UnsortedSegmentSum": _first_axis_is(2, 0),
    **dict.fromkeys(["Fill", "RandomUniform", "TruncatedNormal"], _shaped_by(0)),
    **dict.fromkeys(["RandomStandardNormal", "Empty"], _shaped_by(0)),
    "BroadcastTo": _shaped_by(1),
    "GatherNd": _first_axis_like(1),
    "DynamicPartition": _partitioned,
    **dict.fromkeys(["ParallelDynamicStitch", "DynamicStitch"], _stitched),
    **dict.fromkeys(["ConcatV2", "Concat"], _concatenated),
    "Reshape": _reshaped,
    "StridedSlice": _sliced,
    "SplitV": _split,
    "ExpandDims": _expanded,
    "Transpose": _transposed,
    "Tile": _tiled,
    "Squeeze": _squeezed,
    "SparseFillEmptyRows": _filled_rows,
    "SparseReshape": _like(0),
    "OneHot": _first_axis_like(0),
    **dict.fromkeys(["LookupTableFind", "LookupTableFindV2"], _like(1)),
    "Switch": _like(0),
    RETURNED: _like_own_input,
    "Merge": _like(0),
}
