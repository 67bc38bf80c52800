"""Indicator and bucketized columns, which become zeros and ones without reading a variable.

    indicator    SparseToDense(ids, -1) -> OneHot -> Sum(-2)             -> Reshape
    weighted     SparseReorder -> SparseSlice -> ScatterNd               -> Reshape
    bucketized   Bucketize -> Cast -> OneHot                             -> Reshape

These are not lookups. DeepRec prefetches the result of `input_layer`, and thus these columns along
with the embeddings; here each column's result is found separately.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.op_names import SHAPE_READERS

_NO_ID = -1
_OVER_IDS = -2


def find_indicators(view: GraphView) -> Tuple[Lookup, ...]:
    """The results of indicator and bucketized columns, each described as a lookup without tables.

    Example:
      >>> [column.name for column in find_indicators(view)]
      ['input_layer/genre_indicator']
    """
    found: List[Lookup] = []
    for name in view.of_op("OneHot", "ScatterNd"):
        column = _weighted(view, name) if view.op(name) == "ScatterNd" else _one_hot(view, name)
        if column is not None:
            found.append(column)
    return tuple(found)


def _one_hot(view: GraphView, name: str) -> Optional[Lookup]:
    source = view.inputs(name)[0]
    if view.op(source.node) == "SparseToDense":
        summed = _only_reader(view, TensorRef(name, 0), "Sum")
        if summed is None or not _is_indicator(view, source.node, summed):
            return None
        return _column(view, apis.INDICATOR_COLUMN, view.inputs(source.node)[2], summed)
    while view.op(source.node) == "Cast":
        source = view.inputs(source.node)[0]
    if view.op(source.node) != "Bucketize":
        return None
    return _column(view, apis.BUCKETIZED_COLUMN, view.inputs(source.node)[0], name)


def _is_indicator(view: GraphView, dense: str, summed: str) -> bool:
    missing = view.constant(view.inputs(dense)[3])
    axis = view.constant(view.inputs(summed)[1])
    return _is(missing, _NO_ID) and _is(axis, _OVER_IDS)


def _is(value: Optional[np.ndarray], number: int) -> bool:
    return value is not None and value.size == 1 and value.item() == number


def _weighted(view: GraphView, name: str) -> Optional[Lookup]:
    sliced = {tensor.node for tensor in view.inputs(name)}
    if len(sliced) > 1 or view.op(min(sliced)) != "SparseSlice":
        return None
    ordered = view.inputs(min(sliced))[0].node
    if view.op(ordered) != "SparseReorder":
        return None
    return _column(view, apis.INDICATOR_COLUMN, view.inputs(ordered)[1], name)


def _column(view: GraphView, api: str, values: TensorRef, end: str) -> Lookup:
    end = _only_reader(view, TensorRef(end, 0), "Reshape") or end
    return Lookup(
        api=api,
        tables=(),
        ids=(values,),
        output=TensorRef(end, 0),
        gathers=(),
        nodes=(end,),
        name=end.rpartition("/")[0] or end,
    )


def _only_reader(view: GraphView, tensor: TensorRef, op: str) -> Optional[str]:
    """The only node that reads more than the tensor's shape, if it is of this op type."""
    readers = [use for use in view.uses(tensor) if view.op(use.consumer) not in SHAPE_READERS]
    if len(readers) == 1 and readers[0].slot == 0 and view.op(readers[0].consumer) == op:
        return readers[0].consumer
    return None
