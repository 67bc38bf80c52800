"""Tells which nodes compute the same for all rows of a request.

    shared  reads nothing of a request: variables, constants
    once    reads inputs that are repeated in all rows, and shared tensors: its rows are all the
            same, so what it gives for the first row is enough
    other   everything else

A node is `once` if each row of its results comes from the same row of its inputs (`row_rules`).
Between ids and pooled rows, lookups have lists of ids without rows (`entries`). They are computed
for the first row, too, and only whole lookups, which are recognised by their patterns, make rows of
them again.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes.control_flow import depths
from graph_opt.passes.micro_batches.call import Call
from graph_opt.passes.micro_batches.elementwise import ELEMENTWISE
from graph_opt.passes.micro_batches.known_shapes import KnownShapes
from graph_opt.passes.micro_batches.values import (
    Count,
    RowCount,
    Rows,
    Value,
    array_of,
    has_counts,
)
from graph_opt.passes.repeated_rows.listed_inputs import ListedInput
from graph_opt.passes.repeated_rows.row_rules import (
    FINDS,
    OF_ENTRIES,
    first_of,
    has_rule,
    only_reads,
    rows_of,
)
from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup import Lookup

_LIKE = frozenset(["ZerosLike", "OnesLike"])
_SHARED = Value()
_MATRIX = 2


class Known(NamedTuple):
    """What is known of a node.

    Attributes:
      outputs: What is known of each of its results; empty for lists of ids and inner nodes.
      is_once: Whether it reads repeated inputs and nothing else of a request.
      entries: The rows of whose ids its result is a list, or of what belongs to each of them.
      is_inner: Whether it is between the ids and the result of a lookup.
    """

    outputs: Tuple[Value, ...]
    is_once: bool = False
    entries: Optional[Rows] = None
    is_inner: bool = False


class Classifier:
    """Looks at all nodes of a graph once.

    Args:
      view: The graph.
      repeated: The tensors of which all rows are the same; their first axis is that of the rows.
      varying: The other tensors that have a request's rows.
      listed: Features of any number of values in each row, and whether they are the same in all.

    Attributes:
      nodes: What is known of nodes, by name; `other` nodes of which nothing is known are missing.
      refusals: Why nodes are not computed once although they read only what is.
    """

    def __init__(
        self,
        view: GraphView,
        repeated: Sequence[TensorRef],
        varying: Sequence[TensorRef],
        listed: Sequence[Tuple[ListedInput, bool]] = (),
    ) -> None:
        self._view = view
        self._sources: Dict[TensorRef, Known] = {}
        self._origin: Dict[RowCount, TensorRef] = {}
        for tensor in (*varying, *repeated):
            count = RowCount(tensor, None)
            self._origin[count] = tensor
            value = Value(rows=Rows(0, count), early=False)
            self._sources[tensor] = Known((value,), is_once=tensor in repeated)
        given = dict(self._add_listed(*each) for each in listed)
        self._of_request = set(view.descendants(tensor.node for tensor in self._sources))
        self._of_request.update(view.descendants(view.of_op("Placeholder", "PlaceholderV2")))
        self._depth = depths(view)
        self._known_shapes = KnownShapes(view, self.value, given)
        self._lookups = _whole_lookups(view)
        self._inner = _inner_nodes(self._lookups)
        self._lengths: Set[str] = set()
        self.nodes: Dict[str, Known] = {}
        self.refusals: Dict[str, Refusal] = {}
        for name in view.topological_order() or ():
            known = self._classified(name)
            if known is not None:
                self.nodes[name] = known

    def _add_listed(self, listed: ListedInput, is_once: bool) -> Tuple[TensorRef, Any]:
        """Makes a feature one of the inputs; returns its shape, and what is known of that."""
        count = RowCount(listed.serialized, None)
        self._origin[count] = listed.serialized
        shape = array_of([Count(count, 1), None])
        for tensor in (listed.indices, listed.values):
            self._sources[tensor] = Known((), is_once, entries=Rows(0, count))
        value = Value(numbers=shape, early=False)
        self._sources[listed.dense_shape] = Known((value,), is_once)
        return listed.dense_shape, shape

    def known(self, tensor: TensorRef) -> Optional[Known]:
        """What is known of a tensor's node; of an input, what is known of that tensor alone."""
        return self._sources.get(tensor) or self.nodes.get(tensor.node)

    def value(self, tensor: TensorRef) -> Optional[Value]:
        """What is known of a tensor; None if nothing is, or if it is a list of ids."""
        if tensor in self._sources:
            return next(iter(self._sources[tensor].outputs), None)
        known = self.nodes.get(tensor.node)
        if known is None or tensor.index >= len(known.outputs):
            return None
        return known.outputs[tensor.index]

    def shape(self, tensor: TensorRef) -> Shape:
        """The static shape of a tensor, also where it follows only from how it is computed."""
        return self._known_shapes.shape(tensor)

    def numbers(self, tensor: TensorRef) -> Optional[Any]:
        """The elements of a tensor that is a shape, or computed from shapes; None if not known."""
        return self._known_shapes.numbers(tensor)

    def is_once(self, tensor: TensorRef) -> bool:
        """Whether a tensor is the same for all rows, because it reads repeated inputs."""
        known = self.known(tensor)
        return known is not None and known.is_once

    def origin(self, rows: Rows) -> TensorRef:
        """An input that has as many rows, and that is read by what has these."""
        return self._origin[rows.rows]

    def has_as_many_rows(self, one: TensorRef, other: TensorRef) -> bool:
        """Whether something is computed from the same rows of two inputs."""
        first, second = (self._rows_of_input(each) for each in (one, other))
        return first.rows.root is second.rows.root

    def _rows_of_input(self, tensor: TensorRef) -> Rows:
        known = self._sources[tensor]
        rows = known.entries or known.outputs[0].rows
        assert rows is not None
        return rows

    def _classified(self, name: str) -> Optional[Known]:
        view = self._view
        if name not in self._of_request or view.op(name) == "Const":
            return Known((_SHARED,) * len(view.dtypes(name) or ()))
        found = [self.known(tensor) for tensor in view.inputs(name)]
        known = [each for each in found if each is not None]
        if len(known) < len(found) or not found or self._depth[name]:
            return None
        # What reads nothing of a request but waits for something that does is computed as it is.
        is_once = any(each.is_once for each in known) and not any(
            not each.is_once and self._varies(tensor)
            for each, tensor in zip(known, view.inputs(name))
        )
        try:
            outputs, entries = self._results(name, known)
        except Refusal as refusal:
            if name in self._inner:
                return Known((), is_once, is_inner=True)
            if is_once:
                self.refusals[name] = refusal
            return None
        early = tuple(dataclasses.replace(each, early=each.shared) for each in outputs)
        return Known(early, is_once, entries)

    def _varies(self, tensor: TensorRef) -> bool:
        known = self.known(tensor)
        assert known is not None
        value = self.value(tensor)
        return value is None or not value.shared

    def _results(self, name: str, known: Sequence[Known]) -> Tuple[Sequence[Value], Optional[Rows]]:
        """What is known of the results of a node, or of whose ids its result is a list.

        Raises:
          Refusal: Rows may be computed from each other.
        """
        if name in self._lookups:
            rows = self._rows_of_lookup(self._lookups[name])
            return [Value(rows=rows)] * len(self._view.dtypes(name) or ()), None
        if any(each.is_inner for each in known):
            raise Call(self._view, name).refusal("a part of a lookup")
        listed = [each.entries for each in known if each.entries is not None]
        if listed or self._view.op(name) == "Where":
            return (), self._entries(name, known, listed)
        return self._outputs(name), None

    def _outputs(self, name: str) -> List[Value]:
        """What is known of the results of a node that computes rows, or shapes.

        Raises:
          Refusal: Rows may be computed from each other.
        """
        view = self._view
        tensors = view.inputs(name)
        values = [self.value(tensor) or _SHARED for tensor in tensors]
        shapes = [self._known_shapes.shape(tensor) for tensor in tensors]
        call = Call(view, name, values, shapes)
        count = len(view.dtypes(name) or ())
        numbers = [self._known_shapes.numbers(TensorRef(name, index)) for index in range(count)]
        if count and call.op not in _LIKE and all(found is not None for found in numbers):
            return [Value(numbers=found) for found in numbers]
        if is_stateful(call.op) and not only_reads(call.op):
            raise call.refusal()
        if all(value.shared for value in values) and has_rule(call.op):
            return [_SHARED] * count
        self._look_up_numbers(call)
        if all(each.is_once or not self._varies(tensor) for each, tensor in self._read(name)):
            taken = first_of(call)
            if taken is not None:
                return taken
        return rows_of(call)

    def _read(self, name: str) -> List[Tuple[Known, TensorRef]]:
        found = [(self.known(tensor), tensor) for tensor in self._view.inputs(name)]
        return [(known, tensor) for known, tensor in found if known is not None]

    def _look_up_numbers(self, call: Call) -> None:
        """Has a rule see constants, and refuses to compute with the number of rows itself."""
        for slot, tensor in enumerate(self._view.inputs(call.name)):
            value = call.values[slot]
            if has_counts(value.numbers):
                if call.op in ELEMENTWISE:
                    raise call.refusal("the number of rows as a value")
            elif value.numbers is None:
                numbers = self._known_shapes.numbers(tensor)
                call.values[slot] = dataclasses.replace(value, numbers=numbers)

    def _rows_of_lookup(self, lookup: Lookup) -> Rows:
        """The rows of the result of a lookup that pools rows of tables, or joins those of shards.

        Raises:
          Refusal: Its bags are not the rows of a request.
        """
        call = Call(self._view, lookup.output.node)
        given = {key: self.known(tensor) for key, tensor in lookup.given.items()}
        found: List[Rows] = []
        for key, tensor in lookup.given.items():
            value, known = self.value(tensor), given[key]
            if key == "dense_shape":
                first = None if value is None or value.numbers is None else value.numbers[0]
                rows = Rows(0, first.rows, first.times) if isinstance(first, Count) else None
            elif lookup.combiner is None:
                rows = None if value is None else value.rows
            else:
                rows = None if known is None else known.entries
            if rows is None or rows.axis or rows.times != 1:
                raise call.refusal("ids that are not those of rows")
            found.append(rows)
        if not all(found[0].alike(other) for other in found[1:]):
            raise call.refusal("ids of different rows")
        return found[0]

    def _entries(self, name: str, known: Sequence[Known], listed: Sequence[Rows]) -> Rows:
        """The rows of whose ids a node computes something.

        Raises:
          Refusal: It may compute it from other ids.
        """
        call = Call(self._view, name)
        if call.op in ("Shape", "Fill") or not self._lengths.isdisjoint(
            tensor.node for tensor in self._view.inputs(name)
        ):
            return self._lengthwise(call, listed)
        if call.op not in _OF_ENTRIES and not (call.op == "StridedSlice" and self._is_column(name)):
            raise call.refusal()
        rows = list(listed)
        for slot, (each, tensor) in enumerate(zip(known, self._view.inputs(name))):
            value = self.value(tensor)
            if each.entries is None and call.op in _READ_AT_PLACES and slot == 0:
                rows.append(self._rows_of_matrix(call, tensor, value))
            elif each.entries is None and not (value is not None and value.shared):
                raise call.refusal("ids of a list beside rows")
            elif each.entries is None and call.op in OF_ENTRIES and self.shape(tensor) != ():
                raise call.refusal("a list of ids beside a list of something else")
        if not all(rows[0].alike(other) for other in rows[1:]):
            raise call.refusal("ids of different rows")
        return rows[0]

    def _lengthwise(self, call: Call, listed: Sequence[Rows]) -> Rows:
        """The length of a list, or one value as often: what stands in for ids out of range.

        Raises:
          Refusal: Something else is computed with the length.
        """
        tensor = self._view.inputs(call.name)[0]
        of_length = tensor.node in self._lengths
        if call.op == "Shape" and not of_length and len(self.shape(tensor) or ()) == 1:
            self._lengths.add(call.name)
        elif call.op != "Fill" or not of_length or len(listed) > 1:
            raise call.refusal()
        return listed[0]

    def _rows_of_matrix(self, call: Call, tensor: TensorRef, value: Optional[Value]) -> Rows:
        """The rows of ids [B, k], which have as many places each."""
        shape = self._known_shapes.shape(tensor)
        rows = None if value is None else value.rows
        if rows is None or rows.axis or rows.times != 1 or len(shape or ()) != _MATRIX:
            raise call.refusal("a list of places that are not in rows")
        return rows

    def _is_column(self, name: str) -> bool:
        """Whether a StridedSlice takes the same columns of all places of a list."""
        masks = [self._view.attribute(name, key) for key in ("begin_mask", "end_mask")]
        return all(mask is not None and mask.i & 1 for mask in masks)


_READ_AT_PLACES = frozenset(["Where", "GatherNd"])
_OF_ENTRIES = OF_ENTRIES | FINDS | _READ_AT_PLACES


def _whole_lookups(view: GraphView) -> Dict[str, Lookup]:
    """The lookups whose inner nodes have no rows, by their last node."""
    return {
        lookup.output.node: lookup
        for lookup in find_lookups(view).lookups
        if len(lookup.nodes) > 1 and lookup.given and not lookup.unknown
    }


def _inner_nodes(lookups: Mapping[str, Lookup]) -> AbstractSet[str]:
    found: Set[str] = set()
    for last, lookup in lookups.items():
        found.update(name for name in lookup.nodes if name != last)
    return found
