"""Which tensors have an element for each id of a lookup, rather than for each row of a batch."""

from __future__ import annotations

from typing import Dict, Iterable, List, Sequence, Tuple

from graph_opt.cost.stage_records import StageRecords
from graph_opt.graph.inlined_calls import RETURNED
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_nodes import BUFFER_TAKE
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.lookups.group import STARTS
from graph_opt.rules.op_names import GROUP_LOOKUPS, GROUP_PREPARE, UNIQUES

_MOST_STEPS = 10

# Ops that keep the number of elements, and the inputs that have it, too.
_ONE_FOR_ONE = {
    "Identity": (0,),
    "Cast": (0,),
    "StridedSlice": (0,),
    "Squeeze": (0,),
    "Reshape": (0,),
    "GatherNd": (1,),
    "StringToHashBucketFast": (0,),
    "StringToHashBucket": (0,),
    "StringToHashBucketStrong": (0,),
    "StringToNumber": (0,),
    "AsString": (0,),
    "LookupTableFind": (1,),
    "LookupTableFindV2": (1,),
    "SparseReshape": (0,),
    "SparseFillEmptyRows": (0, 1),
    "Bucketize": (0,),
    "Mod": (0,),
    "FloorMod": (0,),
    "FloorDiv": (0,),
    "Mul": (0, 1),
    "Add": (0, 1),
    "AddV2": (0, 1),
    "Sub": (0, 1),
    "Maximum": (0, 1),
    "Minimum": (0, 1),
    "Select": (1, 2),
    "SelectV2": (1, 2),
    "BitwiseAnd": (0, 1),
    "RightShift": (0, 1),
}


class LookedUpIds:
    """The tables for whose ids a tensor has elements.

    Args:
      view: A graph.
      lookups: Its lookups.
      records: Where the takes of its stages get their tensors from.
    """

    def __init__(self, view: GraphView, lookups: Sequence[Lookup], records: StageRecords) -> None:
        self._view = view
        self._records = records
        self._tables: Dict[TensorRef, List[str]] = {}
        for lookup in lookups:
            if lookup.combiner is not None and view.op(lookup.output.node) not in STARTS:
                self._mark(self._given(lookup), [table.name for table in lookup.tables])
            elif lookup.combiner is None and len(lookup.ids) == 1:
                self._mark_unique(lookup.ids[0], [table.name for table in lookup.tables])
        self.groups = {
            name: named_lookups(view, name) for name in view.of_op(GROUP_PREPARE, *GROUP_LOOKUPS)
        }
        for name, tables in self.groups.items():
            self._mark_group(name, tables)

    def tables(self, tensor: TensorRef) -> Tuple[str, ...]:
        """Names of the tables; empty if the tensor does not have an element for each id."""
        return tuple(self._tables.get(tensor, ()))

    def _given(self, lookup: Lookup) -> List[TensorRef]:
        given = lookup.given
        names = ("ids", "indices", "segments", "weights")
        return [given[name] for name in names if name in given] or list(lookup.ids)

    def _mark_unique(self, ids: TensorRef, tables: Sequence[str]) -> None:
        """Marks the ids that were made unique before rows of these are gathered."""
        for _ in range(_MOST_STEPS):
            op = self._view.op(ids.node)
            if op in UNIQUES:
                self._mark([self._view.inputs(ids.node)[0]], tables)
                return
            carried = self._records.carried(ids)
            if carried is None and op != "Identity":
                return
            ids = carried or self._view.inputs(ids.node)[0]

    def _mark_group(self, name: str, tables: Sequence[str]) -> None:
        inputs = group_inputs(self._view, name)
        for place, table in enumerate(tables):
            sparse = is_sparse(self._view, name, place)
            if sparse:
                self._mark([inputs[place], inputs[len(tables) + place]], [table])

    def _mark(self, tensors: Iterable[TensorRef], tables: Sequence[str]) -> None:
        waiting = list(tensors)
        while waiting:
            tensor = waiting.pop()
            known = self._tables.setdefault(tensor, [])
            new = [table for table in tables if table not in known]
            if not new:
                continue
            known.extend(new)
            waiting.extend(self._above(tensor))

    def _above(self, tensor: TensorRef) -> List[TensorRef]:
        view, op = self._view, self._view.op(tensor.node)
        if op == BUFFER_TAKE:
            put = self._records.put_input(tensor)
            return [] if put is None else [put]
        inputs = view.inputs(tensor.node)
        if op == RETURNED:
            return list(inputs[tensor.index : tensor.index + 1])
        above = [inputs[slot] for slot in _ONE_FOR_ONE.get(op, ()) if slot < len(inputs)]
        return [one for one in above if view.shape(one) != ()]


def named_lookups(view: GraphView, name: str) -> List[str]:
    """For each lookup of a fused op the name of its table."""
    names = view.attribute(name, "table_names")
    numbers = view.attribute(name, "lookup_tables")
    texts = [] if names is None else [text.decode("utf-8", "replace") for text in names.list.s]
    places = [] if numbers is None else list(numbers.list.i)
    return [texts[place] if 0 <= place < len(texts) else "" for place in places]


def group_inputs(view: GraphView, name: str) -> Tuple[TensorRef, ...]:
    """The inputs of a fused op from its ids on: ids, positions, shapes, then others."""
    inputs = view.inputs(name)
    shards = view.attribute(name, "num_shards")
    first = shards.i if view.op(name) in GROUP_LOOKUPS and shards is not None else 0
    return inputs[first:]


def is_sparse(view: GraphView, name: str, place: int) -> bool:
    """Whether a lookup of a fused op has several ids in a row."""
    layouts = view.attribute(name, "layouts")
    if layouts is None or place >= len(layouts.list.s):
        return False
    return bool(layouts.list.s[place] != b"dense")
