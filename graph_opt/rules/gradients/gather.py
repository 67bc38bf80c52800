"""The IndexedSlices that are the gradient of a gather with respect to its table.

    gather     values   Reshape(gradient, ConcatV2(size, shape of the table[1:]))
               indices  Reshape(ids, size)                           size = ExpandDims(Size(ids))
    dynamic    the same; the shape of the table[1:] is a constant, and ids are keys
    own op     values   GroupEmbeddingGrad(ids, .., gradient), behind the indices of all shards
    fast       values   SparseSegment*GradV2(gradient, ids, segments, rows of the table):0
               indices  .. :1, ascending and unique

Several gathers may share their ids. Which of them a gradient belongs to is then decided by the
shape of the table and by the name: TensorFlow puts the gradient of op `a/b` into scope `a/b_grad`.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple
from weakref import WeakKeyDictionary

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import Lookup, Table
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.match.table import count_tables, find_read
from graph_opt.rules.op_names import COMBINERS, GROUP_LOOKUPS, ROW_READERS

_NEAREST: WeakKeyDictionary[GraphView, Dict[Tuple[TensorRef, str], int]] = WeakKeyDictionary()
_GRADIENT_SCOPE = re.compile(r"_grad(_\d+)?$")
_SHAPES = ("Shape", "VariableShape")
_PART_OF_SHAPE = ("StridedSlice", "Cast", "Identity")
_OWN_GRADIENT = "GroupEmbeddingGrad"
# Attributes that a lookup of ours and its gradient share.
_OF_LOOKUPS = (
    "lookup_tables",
    "table_names",
    "table_shards",
    "combiners",
    "layouts",
    "weighted",
    "default_ids",
    "partition_strategies",
    "safe",
)


class Slices(NamedTuple):
    """IndexedSlices of one variable, as the tensors that produce them, before any Identity."""

    values: TensorRef
    indices: TensorRef


class GatheredSlices(NamedTuple):
    """The gradient of one gather.

    Attributes:
      slices: The gradient of the gather's table.
      gradient: The gradient of the gather's output.
      nodes: The nodes that compute the slices from that gradient.
    """

    slices: Slices
    gradient: TensorRef
    nodes: Tuple[str, ...]


def find_slices(view: GraphView, lookup: Lookup, shard: int) -> List[GatheredSlices]:
    """The gradients of one of a lookup's gathers, in graph order.

    Raises:
      Refusal: lookup_differs, if the table has a dense gradient.
    """
    gather, table = lookup.gathers[shard], lookup.tables[shard]
    if view.op(gather) in COMBINERS:
        return list(_of_combiner(view, gather, table))
    return list(_of_gather(view, gather, table))


def values_and_ids(
    structure: Structure, values: TensorRef, indices: TensorRef
) -> Tuple[TensorRef, TensorRef, TensorRef]:
    """(gradient of the rows, ids, shape of the gathered tensor) of a gather's IndexedSlices.

    That shape is without the number of rows if it is a constant.

    Raises:
      Refusal: lookup_differs.
    """
    gradient, values_shape = structure.inputs(values, "Reshape")
    ids, size = structure.inputs(indices, "Reshape")
    joined = structure.inputs(values_shape, "ConcatV2")
    structure.require(len(joined) == 3, values_shape, "a shape of two parts")
    structure.require_same(joined[0], size, values_shape.node)
    structure.require_constant(joined[2], 0)
    count, axis = structure.inputs(size, "ExpandDims")
    structure.require_constant(axis, 0)
    if structure.view.constant(count) is None:
        structure.require_same(structure.inputs(count, "Size")[0], ids, count.node)
    if structure.view.constant(joined[1]) is not None:
        return gradient, ids, joined[1]
    return gradient, ids, structure.inputs(joined[1], "StridedSlice")[0]


def shape_source(structure: Structure, shape: TensorRef) -> Optional[TensorRef]:
    """The tensor (or handle) whose shape this is a part of; None if it is a constant.

    Raises:
      Refusal: lookup_differs.
    """
    shape = structure.through(shape, *_PART_OF_SHAPE)
    if structure.view.constant(shape) is not None:
        return None
    return structure.inputs(shape, *_SHAPES)[0]


def _of_gather(view: GraphView, gather: str, table: Table) -> Iterator[GatheredSlices]:
    ids = view.inputs(gather)[1]
    for use in view.uses(ids):
        if use.slot != 0 or view.op(use.consumer) != "Reshape":
            continue
        indices = TensorRef(use.consumer, 0)
        values = _values_beside(view, indices)
        if values is None or not _is_nearest(view, gather, values):
            continue
        structure = Structure(view)
        gradient, _, shape = values_and_ids(structure, values, indices)
        if not _is_shape_of(structure, shape, table):
            continue
        yield GatheredSlices(Slices(values, indices), gradient, tuple(structure.seen))


def _values_beside(view: GraphView, indices: TensorRef) -> Optional[TensorRef]:
    """The values that belong to Reshape(ids, size): size is the first part of their shape."""
    size = view.inputs(indices.node)[1]
    if view.op(size.node) != "ExpandDims":
        return None
    for use in view.uses(size):
        if use.slot != 0 or view.op(use.consumer) != "ConcatV2":
            continue
        for reader in view.uses(TensorRef(use.consumer, 0)):
            if reader.slot == 1 and view.op(reader.consumer) == "Reshape":
                return TensorRef(reader.consumer, 0)
    return None


def _of_combiner(view: GraphView, combiner: str, table: Table) -> Iterator[GatheredSlices]:
    ids, segments = view.inputs(combiner)[1:3]
    kind = _gradient_op(view, combiner)
    for use in view.uses(ids):
        name = use.consumer
        if use.slot != 1 or not view.op(name).startswith(kind):
            continue
        gradient, _, of_segments, rows = view.inputs(name)[:4]
        structure = Structure(view)
        if of_segments != segments or not _is_nearest(view, combiner, TensorRef(name, 0)):
            continue
        if not _is_shape_of(structure, rows, table):
            continue
        if view.op(name) != kind + "V2":
            need = "IndexedSlices, not the gradient of all rows of the table"
            raise Refusal("lookup_differs", at=name, need=need, saw=view.op(name))
        slices = Slices(TensorRef(name, 0), TensorRef(name, 1))
        yield GatheredSlices(slices, gradient, (name, *structure.seen))


def _gradient_op(view: GraphView, combiner: str) -> str:
    return view.op(combiner).replace("WithNumSegments", "") + "Grad"


def _is_shape_of(structure: Structure, shape: TensorRef, table: Table) -> bool:
    """Whether this is the shape of a table or a part of it, read from the table or constant."""
    try:
        source = shape_source(structure, shape)
    except Refusal:
        return False
    if source is not None:
        read = find_read(structure.view, source)
        return read is not None and read.variable == table.name
    shape = structure.through(shape, *_PART_OF_SHAPE)
    value = structure.view.constant(shape)
    return value is not None and tuple(value.reshape(-1)) == table.fixed_shape


def gradients_of_own_op(view: GraphView, lookup: Lookup) -> Iterator[str]:
    """The nodes that return the gradients of all lookups of this one's node, an op of ours."""
    node = lookup.output.node
    given = view.inputs(node)[count_tables(view, node) :]
    rivals = [use.consumer for use in view.uses(given[0]) if view.op(use.consumer) in GROUP_LOOKUPS]
    for use in view.uses(given[0]):
        name = use.consumer
        if view.op(name) != _OWN_GRADIENT or tuple(view.inputs(name)[: len(given)]) != given:
            continue
        alike = all(view.attribute(name, key) == view.attribute(node, key) for key in _OF_LOOKUPS)
        if alike and _is_nearest_of(rivals, node, name):
            yield name


def _is_nearest(view: GraphView, gather: str, values: TensorRef) -> bool:
    """Whether no other reader of the ids fits the gradient's name better than this gather."""
    scope = _scope_of(values.node)
    return _common_suffix(scope, gather) >= _nearest(view, view.inputs(gather)[1], scope)


def _nearest(view: GraphView, ids: TensorRef, scope: str) -> int:
    """How well the name fits of the reader of ids whose name fits a gradient's scope best.

    Models may look up the same ids in a thousand tables. Each of a thousand gradients then asks
    this for each lookup.
    """
    known = _NEAREST.setdefault(view, {})
    if (ids, scope) not in known:
        readers = [
            use.consumer
            for use in view.uses(ids)
            if use.slot == 1 and view.op(use.consumer) in ROW_READERS
        ]
        known[ids, scope] = max((_common_suffix(scope, reader) for reader in readers), default=0)
    return known[ids, scope]


def _is_nearest_of(rivals: Sequence[str], gather: str, gradient: str) -> bool:
    scope = _scope_of(gradient)
    own = _common_suffix(scope, gather)
    return all(_common_suffix(scope, rival) <= own for rival in rivals)


def _scope_of(gradient: str) -> str:
    """The name of the op that a node is a gradient of, as its scope has it."""
    return _GRADIENT_SCOPE.sub("", gradient.rpartition("/")[0])


def _common_suffix(scope: str, name: str) -> int:
    """The number of trailing parts that two names have in common."""
    count = 0
    for one, other in zip(reversed(scope.split("/")), reversed(name.split("/"))):
        if one != other:
            break
        count += 1
    return count
