"""Trains on a batch in parts, one after the other: the same update, with less memory.

    before  batch ------------------> layers -> loss -> gradients -> update
    after   batch -> rows of part 0 -> layers -> gradients ---+
                  -> rows of part 1 -> layers -> gradients ---+ sum -> update

Every row of a micro-batch has the numbers that it has in the whole batch: what a mean divides by
stays the number of all rows. So gradients of weights are sums over micro-batches, whatever the
numbers of rows of these, and gradients of looked-up rows are joined. Whatever comes after
(penalties, clipping, the update) is computed once, as before.

Nodes keep computing the whole batch for steps that do not train. What a step that trains fetches as
well comes from its micro-batches, where it can.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, List, NamedTuple, Optional, Set, Tuple

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import ONCE_A_BATCH, VARIABLES
from graph_opt.compat.variable_ops import CHANGES, TAKES_GRADIENTS, is_use
from graph_opt.config.micro_batches import BATCHES
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.applied_once import marked, refuse_again
from graph_opt.passes.io_stages import stage_puts
from graph_opt.passes.micro_batches import products
from graph_opt.passes.micro_batches.classify import (
    COMPUTED_EARLY,
    COPIED,
    EARLY,
    LATE,
    Classifier,
)
from graph_opt.passes.micro_batches.copies import DIVIDED_BATCH, Copies
from graph_opt.passes.micro_batches.micro_batch_names import MicroBatchNames
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.report import MICRO_BATCHES
from graph_opt.reporting.tables import counted

_SCOPE = "micro_batches"
_DIVIDED = "each batch in {} micro-batches: {} copied, {} summed, {} joined"
_WHOLE = MICRO_BATCHES + "each batch runs whole: {}"
_UNDIVIDED = "all that updates need is computed for the whole batch"
_NOTHING = "no update depends on the rows of a batch by way of layers"


class _Attempt(NamedTuple):
    """What is known, if so much may be computed for the whole batch."""

    classifier: Classifier
    late: List[str]
    whole: List[str]


def micro_batches(state: PassState, options: SessionOptions) -> PassState:
    """Divides batches, if updates then are the same.

    Raises:
      FailedPreconditionError: They are divided already.
    """
    wanted = options.micro_batches
    if wanted is None or wanted.rule == BATCHES:
        return state
    view = state.view
    divided = marked(view, DIVIDED_BATCH, "NoOp")
    refuse_again(
        divided, "batches of the graph were divided before (node '{}'): micro_batch_num is"
    )
    ahead = state.name_map.not_run.union(view.ancestors(stage_puts(view)))
    attempts = [_attempt(view, ahead, kept) for kept in range(len(COMPUTED_EARLY) + 1)]
    best = min(attempts, key=lambda attempt: (not attempt.late, len(attempt.whole)))
    refusal = _refusal(view, best)
    if refusal is None and best.late:
        try:
            return _divided(state, best, wanted.number, options)
        except Refusal as found:
            refusal = found
    if refusal is None:
        return state.reporting(left_alone=(*state.report.left_alone, _WHOLE.format(_NOTHING)))
    return state.reporting(
        left_alone=(*state.report.left_alone, _WHOLE.format(refusal)),
        refusals=(*state.report.refusals, refusal.to_dict()),
    )


def _attempt(view: GraphView, ahead: AbstractSet[str], kept_early: int) -> _Attempt:
    classifier = Classifier(view, ahead, kept_early)
    needed = _needed(view, classifier, _updates(view, classifier))
    late = [name for name in classifier.nodes if name in needed and _is(classifier, name, LATE)]
    reads = any(
        _is(classifier, tensor.node, COPIED) for name in late for tensor in view.inputs(name)
    )
    whole = [name for name in late if view.op(name) in products.RULES]
    return _Attempt(classifier, late if reads else [], whole)


def _needed(view: GraphView, classifier: Classifier, ends: List[str]) -> Set[str]:
    """What these nodes are computed from or wait for, apart from gradients that nothing reads."""
    found, waiting = set(ends), list(ends)
    while waiting:
        name = waiting.pop()
        before = [tensor.node for tensor in view.inputs(name)] + classifier.waits_for(name)
        fresh = [each for each in before if each not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found


def _is(classifier: Classifier, name: str, state: str) -> bool:
    return classifier.nodes[name].state == state


def _updates(view: GraphView, classifier: Classifier) -> List[str]:
    """What changes variables by what is computed from the rows of a batch."""
    read = {
        tensor.node
        for name, node in classifier.nodes.items()
        if node.state == COPIED
        for tensor in view.inputs(name)
        if _is(classifier, tensor.node, EARLY)
    }
    trained = {name for name in view.ancestors(sorted(read)) if view.op(name) in VARIABLES}
    found = []
    for name, node in classifier.nodes.items():
        op = view.op(name)
        if node.state != LATE or name in classifier.unused.nodes:
            continue
        is_write = is_use(op, CHANGES) and _written(view, name) in trained
        if is_write or is_use(op, TAKES_GRADIENTS):
            found.append(name)
    return found


def _written(view: GraphView, name: str) -> str:
    return view.through_identity(view.inputs(name)[0]).node


def _refusal(view: GraphView, attempt: _Attempt) -> Optional[Refusal]:
    """Why layers would have to be computed for the whole batch all the same."""
    if not attempt.whole:
        return None
    above = _needed(view, attempt.classifier, attempt.whole)
    for name in attempt.late:
        refusal = attempt.classifier.nodes[name].refusal
        if refusal is not None and name in above:
            return refusal
    return attempt.classifier.nodes[attempt.whole[0]].refusal


def _divided(
    state: PassState, attempt: _Attempt, number: int, options: SessionOptions
) -> PassState:
    view = state.view
    copies = Copies(view, attempt.classifier, number, free_scope(view, _SCOPE))
    late = _LateNodes(view, attempt, copies)
    late.connect()
    if not copies.copied:
        return state.reporting(left_alone=(*state.report.left_alone, _WHOLE.format(_UNDIVIDED)))
    counts = counted(late.totals, "gradient"), counted(late.rows, "tensor")
    results = _Results(view, attempt, copies, frozenset(options.fetched))
    results.write()
    copies.finish()
    changed = state.rewritten(late.edits.rewrite(copies.writer.nodes))
    names = MicroBatchNames(copies.writer.scope, results.tensors)
    name_map = changed.name_map.with_part(names)
    line = _DIVIDED.format(number, counted(len(copies.copied), "node"), *counts)
    return dataclasses.replace(changed, name_map=name_map).reporting(micro_batches=line)


class _LateNodes:
    """Makes late nodes that updates need read what micro-batches compute."""

    def __init__(self, view: GraphView, attempt: _Attempt, copies: Copies) -> None:
        self._view = view
        self._classifier = attempt.classifier
        self._late = attempt.late
        self._copies = copies
        self._seen: Set[TensorRef] = set()
        self.edits = Edits(view)
        self.totals = 0
        self.rows = 0

    def connect(self) -> None:
        """Edits all of them.

        Raises:
          Refusal: One of them needs what no micro-batch has.
        """
        for source, name in self._classifier.unused.released:
            # Early nodes would otherwise wait for late ones.
            self.edits.move_wait(name, source)
        for name in self._late:
            for slot, tensor in enumerate(self._view.inputs(name)):
                text = self._read(tensor)
                if text != tensor.input_name:
                    self.edits.move_input(name, slot, text)
            for source in self._classifier.waits_for(name):
                after = self._awaited(source)
                if after != (source,):
                    self.edits.move_wait(name, source, after)

    def _read(self, tensor: TensorRef) -> str:
        value = self._classifier.value(tensor)
        if value is None:
            return tensor.input_name
        if _is(self._classifier, tensor.node, EARLY):
            return self._copies.early(tensor)
        if tensor not in self._seen:
            self._seen.add(tensor)
            self.totals += value.total
            self.rows += value.rows is not None
        return self._copies.joined(tensor, ends_turn=True)

    def _awaited(self, source: str) -> Tuple[str, ...]:
        node = self._classifier.nodes[source]
        if node.state == LATE:
            return (source,)
        if node.early:
            return (self._copies.early_node(source),)
        return tuple(self._copies.waits(source, ends_turn=True))


class _Results:
    """Writes what steps that train may fetch: results of micro-batches, and what depends on them.

    Attributes:
      tensors: Maps their names to those of what has their values.
    """

    def __init__(
        self, view: GraphView, attempt: _Attempt, copies: Copies, fetched: AbstractSet[str]
    ) -> None:
        self._view = view
        self._classifier = attempt.classifier
        self._late = set(attempt.late)
        self._copies = copies
        self._fetched = {TensorRef.parse(name) for name in fetched}
        self._clones: Dict[str, str] = {}
        self.tensors: Dict[str, str] = {}

    def write(self) -> None:
        """Writes all of them."""
        for name in self._classifier.nodes:
            if name in self._classifier.ahead:
                continue
            try:
                if self._may_clone(name):
                    self._clone(name)
                elif _is(self._classifier, name, COPIED):
                    self._join(name)
            except Refusal:
                continue  # Whoever fetches it has it computed for the whole batch.

    def _may_clone(self, name: str) -> bool:
        view, nodes = self._view, self._classifier.nodes
        if nodes[name].state != LATE or name in self._late or name in self._classifier.unused.nodes:
            return False
        if is_stateful(view.op(name)) and view.op(name) not in ONCE_A_BATCH:
            return False
        if self._classifier.is_inside(name):
            return False
        before = [*(tensor.node for tensor in view.inputs(name)), *view.controls(name)]
        return all(
            nodes[each].state != LATE or each in self._late or each in self._clones
            for each in before
        )

    def _clone(self, name: str) -> None:
        view = self._view
        inputs = [self._read(tensor) for tensor in view.inputs(name)]
        for source in self._classifier.waits_for(name):
            inputs.extend("^" + each for each in self._awaited(source))
        self._clones[name] = self._copies.clone(name, inputs)
        for index in range(len(view.dtypes(name) or ())):
            tensor = TensorRef(name, index)
            self.tensors[str(tensor)] = "{}:{}".format(self._clones[name], index)

    def _read(self, tensor: TensorRef) -> str:
        if tensor.node in self._clones:
            return TensorRef(self._clones[tensor.node], tensor.index).input_name
        value = self._classifier.value(tensor)
        if value is None:
            return tensor.input_name
        if _is(self._classifier, tensor.node, EARLY):
            return self._copies.early(tensor)
        self._note(tensor)
        return self._copies.joined(tensor)

    def _note(self, tensor: TensorRef) -> None:
        joined = self._copies.joined(tensor)
        if joined != tensor.input_name:
            self.tensors[str(tensor)] = str(TensorRef.parse(joined))

    def _awaited(self, source: str) -> List[str]:
        node = self._classifier.nodes[source]
        if source in self._clones:
            return [self._clones[source]]
        if node.state == LATE:
            return [source]
        return [self._copies.early_node(source)] if node.early else self._copies.waits(source)

    def _join(self, name: str) -> None:
        """Joins what nothing reads, such as a prediction, and what is known to be fetched."""
        view = self._view
        node = self._classifier.nodes[name]
        is_result = not view.successors(name) and not node.early
        for index, value in enumerate(node.outputs):
            tensor = TensorRef(name, index)
            if (is_result or tensor in self._fetched) and not value.shared:
                self._note(tensor)
