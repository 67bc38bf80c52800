"""Tells for each node whether it can be computed for some rows of a batch at a time.

    early   computed once, before all micro-batches: what reads no rows, lookups, random numbers,
            the batch itself
    copied  computed for each micro-batch from its rows
    late    computed once, after all micro-batches, from their joined rows and summed totals

Nothing early or copied waits for anything late, so micro-batches can run one after the other. If
layers are late, the pass refuses, and names what made them so.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import (
    CALLS_PYTHON,
    ONCE_A_BATCH,
    PLACEHOLDERS,
    RANDOM,
    VARIABLES,
)
from graph_opt.graph.control_flow_ops import OUT_OF_CONTROL_FLOW
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import STAND_IN
from graph_opt.passes.control_flow import depths
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE
from graph_opt.passes.micro_batches import elementwise, layout, products, reductions
from graph_opt.passes.micro_batches.call import COPY, WHOLE, Call, Use
from graph_opt.passes.micro_batches.known_shapes import SHAPES, KnownShapes
from graph_opt.passes.micro_batches.values import Count, RowCount, Rows, Value, has_counts
from graph_opt.passes.unused_gradients import unused_gradients
from graph_opt.rules.op_names import GATHERS

COMPUTED_EARLY = ("what is computed from a stage's batch", "the same from looked-up rows")
"""What takes memory for the whole batch, from least to most, besides what is read as it is."""
EARLY, COPIED, LATE = "early", "copied", "late"
_RULES = {**elementwise.RULES, **reductions.RULES, **products.RULES, **layout.RULES}
_LIKE = frozenset(["ZerosLike", "OnesLike"])
_DRAWS = RANDOM | {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"}


class Node(NamedTuple):
    """What is known of one node.

    Attributes:
      state: `EARLY`, `COPIED` or `LATE`.
      outputs: What is known of its outputs; empty if it is late.
      uses: How copies read its inputs.
      weighted: The rows of which each copy computes the mean; None for all but means over rows.
      early: Whether it can also be computed early.
      cloned: Whether computing it early takes a copy of it, since it reads the shape of something
        that is not computed early.
      refusal: Why it is late, if its inputs are not.
    """

    state: str
    outputs: Tuple[Value, ...] = ()
    uses: Optional[Dict[int, Use]] = None
    weighted: Optional[Rows] = None
    early: bool = True
    cloned: bool = False
    refusal: Optional[Refusal] = None


_NOT_SEEN = Node(LATE)


class Classifier:
    """Looks at all nodes of a graph once.

    Args:
      view: The graph.
      ahead: Nodes that do not run in the step that trains, such as those of a stage.
      kept_early: What may be computed for the whole batch, if that is not divided otherwise: of
        `COMPUTED_EARLY`, this many.

    Attributes:
      nodes: What is known of each node.
      ahead: The same as given.
      unused: Gradients that nothing reads.
    """

    def __init__(self, view: GraphView, ahead: AbstractSet[str], kept_early: int) -> None:
        self._view = view
        self._kept_early = kept_early
        self.ahead = ahead
        self.unused = unused_gradients(view)
        self._released = set(self.unused.released)
        self._known = KnownShapes(view, self.value)
        self._depth = depths(view)
        self.nodes: Dict[str, Node] = {}
        self._batch = _batch_nodes(view)
        self._static_rows = _static_rows(view, self._batch)
        for name in view.topological_order() or ():
            self.nodes[name] = self._classified(name)

    def value(self, tensor: TensorRef) -> Optional[Value]:
        """What is known of a tensor; None if it is late."""
        node = self.nodes.get(tensor.node, _NOT_SEEN)
        return None if node.state == LATE else node.outputs[tensor.index]

    def waits_for(self, name: str) -> List[str]:
        """The control inputs of a node, without gradients that nothing reads."""
        return [each for each in self._view.controls(name) if (each, name) not in self._released]

    def is_inside(self, name: str) -> bool:
        """Whether a node is part of a branch or loop of TensorFlow 1, or ends one."""
        return self._depth[name] > 0 or self._view.op(name) in OUT_OF_CONTROL_FLOW

    def _classified(self, name: str) -> Node:
        view = self._view
        if name in self.ahead and name in self._batch:
            return Node(EARLY, (Value(),) * len(view.dtypes(name) or ()))
        values = [self.value(tensor) for tensor in view.inputs(name)]
        before = [self.nodes[each] for each in self.waits_for(name)]
        if None in values or any(node.state == LATE for node in before):
            return Node(LATE)
        known = [value for value in values if value is not None]
        follows = any(node.state == COPIED for node in before)
        if self._depth[name] == 0:
            if view.op(name) == "NoOp" and follows:
                return self._waiting(before)
            if follows or not all(value.shared and value.early for value in known):
                return self._divided(name, known, before)
        return self._whole(name, known, before)

    def _waiting(self, before: List[Node]) -> Node:
        early = all(node.early for node in before)
        return Node(COPIED, (), {}, None, early, any(node.cloned for node in before))

    def _divided(self, name: str, values: List[Value], before: List[Node]) -> Node:
        """A node that reads rows, or what was computed from them."""
        try:
            drawn = self._drawn(name, values)
            if drawn is not None:
                return self._whole(name, values, before, rows=drawn)
            return self._copied(name, values, before)
        except Refusal as refusal:
            return self._whole(name, values, before, refusal)

    def _copied(self, name: str, values: List[Value], before: List[Node]) -> Node:
        view, op = self._view, self._view.op(name)
        call = Call(view, name, values, [self._known.shape(tensor) for tensor in view.inputs(name)])
        outputs = self._computed(call)
        reads_shape = op in SHAPES or op in _LIKE
        variable = not reads_shape and any(value.variable for value in values)
        if op in GATHERS:  # of a table: looked-up rows, which what combines them needs as a whole
            variable = self._depends_on_variables(name, values)
        early = all(value.early for value in values) and not variable
        cloned = self._is_cloned(name)
        if reads_shape and not early:
            early, cloned = self._has_known_shape(name), True
        early = early and all(node.early for node in before)
        if cloned and is_stateful(op):
            early = False
        self._read_own_numbers(name, values, call.uses)
        found = tuple(
            dataclasses.replace(value, early=early, variable=variable) for value in outputs
        )
        return Node(COPIED, found, call.uses, call.weighted, early, early and cloned)

    def _read_own_numbers(self, name: str, values: List[Value], uses: Dict[int, Use]) -> None:
        """Has copies read the axes that they computed themselves.

        If a batch or a micro-batch has a single row, these are other axes, with the same result.
        """
        for slot, tensor in enumerate(self._view.inputs(name)):
            is_copied = self.nodes[tensor.node].state == COPIED
            if is_copied and uses[slot].kind == WHOLE and values[slot].shared:
                uses[slot] = Use(COPY)

    def _computed(self, call: Call) -> List[Value]:
        """What is known of the outputs of a copied node.

        Raises:
          Refusal: No copies of it can be made.
        """
        view, name = self._view, call.name
        count = len(view.dtypes(name) or ())
        numbers = [self._known.numbers(TensorRef(name, index)) for index in range(count)]
        if all(found is not None for found in numbers) and count and call.op not in _LIKE:
            return [Value(numbers=found) for found in numbers]
        if all(value.shared for value in call.values) and (call.op in _RULES or call.op == "Const"):
            return [Value()] * count
        rule = _RULES.get(call.op)
        if rule is None or is_stateful(call.op) or not self._reads_rows(call):
            raise call.refusal()
        self._look_up_numbers(call)
        return rule(call)

    def _reads_rows(self, call: Call) -> bool:
        """Whether a node computes with rows, or repeats something as often as there are rows."""
        if call.op in ("Fill", "BroadcastTo", "Tile"):
            return True
        return any(value.rows is not None or value.total for value in call.values)

    def _look_up_numbers(self, call: Call) -> None:
        """Has a rule see constants; numbers of rows that are computed with are the batch's."""
        of_values = call.op in elementwise.ELEMENTWISE
        for slot, tensor in enumerate(self._view.inputs(call.name)):
            value = call.values[slot]
            if of_values and has_counts(value.numbers):
                call.share(slot)
                call.values[slot] = Value(early=value.early)
            elif value.numbers is None:
                numbers = self._known.numbers(tensor)
                call.values[slot] = dataclasses.replace(value, numbers=numbers)

    def _drawn(self, name: str, values: List[Value]) -> Optional[Rows]:
        """Where random numbers that are drawn for the whole batch have its rows."""
        op = self._view.op(name)
        if op not in _DRAWS and op != "Range":
            return None
        if op == "Range":
            start, limit, delta = (self._known.numbers(one) for one in self._view.inputs(name))
            shape = limit if [_only(start), _only(delta)] == [0, 1] else None
        else:
            shape = self._known.numbers(self._view.inputs(name)[0])
        if shape is None:
            return None
        counts = [
            (axis, one) for axis, one in enumerate(shape.reshape(-1)) if isinstance(one, Count)
        ]
        if len(counts) != 1 or counts[0][1].times is None:
            return None
        return Rows(counts[0][0], counts[0][1].rows, counts[0][1].times)

    def _whole(
        self,
        name: str,
        values: List[Value],
        before: List[Node],
        refusal: Optional[Refusal] = None,
        rows: Optional[Rows] = None,
    ) -> Node:
        """A node that is computed for the whole batch."""
        view, op = self._view, self._view.op(name)
        cloned = self._is_cloned(name)
        early = all(value.early for value in values) and all(node.early for node in before)
        if cloned and is_stateful(op) and op not in _DRAWS and op not in ONCE_A_BATCH:
            early = False
        if not early:
            return Node(LATE, refusal=refusal or _mixed(view, name))
        variable = self._depends_on_variables(name, values)
        count = len(view.dtypes(name) or ())
        outputs = [
            Value(rows=rows or self._rows_of(TensorRef(name, index)), variable=variable)
            for index in range(count)
        ]
        return Node(EARLY, tuple(outputs), cloned=cloned)

    def _depends_on_variables(self, name: str, values: List[Value]) -> bool:
        op = self._view.op(name)
        if op == BUFFER_TAKE:
            return not self._kept_early
        if op in VARIABLES:
            return True
        if op in SHAPES or not any(value.variable for value in values):
            return False
        return name not in self._batch or self._kept_early < len(COMPUTED_EARLY)

    def _is_cloned(self, name: str) -> bool:
        """Whether computing a node early takes a copy of something before it."""
        before = [tensor.node for tensor in self._view.inputs(name)] + self.waits_for(name)
        return any(self.nodes[each].cloned for each in before)

    def _has_known_shape(self, name: str) -> bool:
        """Whether all sizes of what a node reads are known, but for the number of rows."""
        for tensor in self._view.inputs(name):
            value, shape = self.value(tensor), self._view.shape(tensor)
            if value is None or shape is None:
                return False
            axis = value.rows.axis if value.rows is not None else None
            times_known = value.rows is None or value.rows.times is not None
            if not times_known or any(
                size is None for place, size in enumerate(shape) if place != axis
            ):
                return False
        return True

    def _rows_of(self, tensor: TensorRef) -> Optional[Rows]:
        """Where a tensor that is computed for the whole batch has its rows: along its first axis.

        Any tensor may be divided along an axis; the rules see to it that what meets is divided
        alike.
        """
        if tensor.node not in self._batch or self._depth[tensor.node]:
            return None
        shape = self._known.shape(tensor)
        if not shape or (shape[0] is not None and shape[0] != self._static_rows):
            return None
        dtype = self._view.dtype(tensor)
        if dtype is None or dtype >= 100 or dtype in _NO_VALUES:
            return None
        return Rows(0, RowCount(tensor, shape[0]))


_NO_VALUES = (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum)


def _only(array: Optional[Any]) -> Any:
    return None if array is None or array.size != 1 else array.reshape(-1)[0]


def _mixed(view: GraphView, name: str) -> Refusal:
    return Call(view, name).refusal()


def _batch_nodes(view: GraphView) -> Set[str]:
    """What is computed from a batch."""
    sources = [
        *view.of_op(*sorted(PLACEHOLDERS), *BATCH_SOURCES, BUFFER_TAKE, STAND_IN),
        *view.of_op(*sorted(CALLS_PYTHON)),
    ]
    return set(view.descendants(sources))


def _static_rows(view: GraphView, batch: Set[str]) -> Optional[int]:
    """The number of rows that most tensors of a batch have, among those that say so."""
    votes: Dict[int, int] = {}
    for name in view.of_op(*sorted(PLACEHOLDERS), *BATCH_SOURCES, BUFFER_TAKE, STAND_IN):
        for index in range(len(view.dtypes(name) or ())):
            shape = view.shape(TensorRef(name, index))
            if shape and shape[0] is not None and shape[0] > 1:
                votes[shape[0]] = votes.get(shape[0], 0) + 1
    return max(votes, key=lambda rows: (votes[rows], rows)) if votes else None
