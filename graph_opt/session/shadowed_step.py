"""What of a training step is run twice, by the rewritten graph and as its user built it.

    shared     what a step gets once: batches that main takes, random numbers, Python's results
    compared   losses and other fetches, results of lookups that were rewritten, and what goes into
               what is shared, since a difference there goes no further

What is shared is fetched first, and then fed to whatever needs it, so that both sides compute with
the same, and no batch or random number is drawn twice. If some of it would run again for the sake
of a control edge, the step is not shadowed. A copy of a random op is run whenever main's is, so
that it would go on with the same numbers.
"""

from __future__ import annotations

import dataclasses
import re
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

from graph_opt.compat import tf
from graph_opt.compat.graph_growth import is_reference
from graph_opt.compat.live_graph import functions_of, is_in_control_flow
from graph_opt.compat.stateful_ops import (
    CALLS_PYTHON,
    FINDS_ROWS,
    FUNCTION_CALLS,
    RANDOM,
    VARIABLES,
    functions_only_read,
    may_draw,
)
from graph_opt.compat.variable_ops import ACTS, is_use
from graph_opt.export.users_graph import moved_inputs
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.io_stages import BUFFER_TAKE
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.stock_copy import CannotCopy
from graph_opt.runtime.stages import stages_of
from graph_opt.session.compared_tensors import Pair, can_compare
from graph_opt.session.fetch_map import FetchMap
from graph_opt.session.stage_reach import condition_of
from graph_opt.session.stock_graph import StockFetches, StockGraph

_READS = ("Identity", "RefIdentity", "ReadVariableOp")
_OF_ONE_VALUE = ("Placeholder", "PlaceholderV2")
_OURS = re.compile(r"^(Resource)?(GroupEmbedding|RowLog|Exchange)")
_ACTS_BESIDES = re.compile(r"^(QueueEnqueue|QueueClose|LookupTable(Insert|Import|Remove)|Write)")
_COLLECTIVE = re.compile(r"^(Horovod|Nccl|Collective)|AllToAll$")
_NOT_ONCE = "'{}' ({}) is in a tf.cond or a loop, and must not run twice in a step"
_NOT_FETCHED = "'{}' ({}) returns what cannot be fetched, and must not run twice in a step"
_ACTS = "'{}' ({}) changes state on the way to it"
_COUNTS_KEYS = "'{}' ({}) counts the keys of a dynamic table"
_AHEAD = "'{}' ({}) runs ahead, and its result does not reach main"
_CHOSEN = "the step chooses among several inputs at '{}'"
_AGAIN = "'{}' ({}) must not run twice in a step, and others wait for it by control edges"
_RANKS = "'{}' ({}) takes part in what several ranks do together"
_NO_LOSS_COMPARED = "a loss: the step neither fetches one nor has one in the collection LOSSES"
_NO_LOSS = "the step neither fetches a loss nor has one in the collection LOSSES, and no lookup"
_UNTOUCHED = "no rewrite concerns what leads to the losses of a step"


@dataclasses.dataclass(frozen=True)
class ShadowedStep:
    """How a step is shadowed.

    Attributes:
      losses: Numbers that are fetched, and losses, to compare.
      lookups: Results of lookups to compare.
      drawn_from: Inputs to compare of what the step gets once.
      shared: Tensors of main that the step gets once.
      copies: By their names, tensors of the stock graph that have the same value.
      draws: Copies of random numbers, to be drawn whenever main draws.
      fetches, targets: The step as its user built it.
      left_out: Why losses are not compared that the step has, a line each.
    """

    losses: Tuple[Pair, ...]
    lookups: Tuple[Pair, ...]
    drawn_from: Tuple[Pair, ...]
    shared: Tuple[Any, ...]
    copies: Dict[str, Tuple[Any, ...]]
    draws: Tuple[Any, ...]
    fetches: Tuple[Any, ...]
    targets: Tuple[Any, ...]
    left_out: Tuple[str, ...] = ()

    @property
    def pairs(self) -> Tuple[Pair, ...]:
        """All that is compared, losses first."""
        return (*self.losses, *self.lookups, *self.drawn_from)


class StepParts(NamedTuple):
    """A step, as given and as prepared for the rewritten graph: fetches, targets and feeds."""

    given: Tuple[List[Any], List[Any], List[Any]]
    fetches: List[Any]
    targets: List[Any]


def shadowed_step(
    graph: Any, name_map: NameMap, names: FetchMap, stock: StockGraph, step: StepParts
) -> ShadowedStep:
    """Finds what to share and what to compare.

    Args:
      graph: The rewritten graph.
      name_map: What its names stand for.
      names: What they mean in a step.
      stock: Its copies.
      step: The step.

    Raises:
      CannotCopy: The step cannot be run twice; the text says why.
    """
    return _Search(graph, name_map, names, stock, step).found()


class _Search:
    def __init__(
        self,
        graph: Any,
        name_map: NameMap,
        names: FetchMap,
        stock: StockGraph,
        step: StepParts,
    ) -> None:
        self._graph = graph
        self._name_map = name_map
        self._names = names
        self._stock = stock
        self._step = step
        self._feeds = step.given[2]
        self._functions = functions_of(graph)
        self._originals = stock.originals
        self._batches = {copy: name for name, copy in stock.batches.items()}
        self._sources = {copy.partition(":")[0] for copy in self._batches}

    def found(self) -> ShadowedStep:
        """The step."""
        given, step = self._step.given, self._step
        fetches, targets, _, reached = StockFetches(self._graph).resolved(*given)
        for operation in reached:
            if _COLLECTIVE.search(operation.type):
                raise CannotCopy(_RANKS.format(operation.name, operation.type))
        main = self._behind([each.op for each in step.fetches] + list(step.targets))
        losses, left_out = self._comparable(self._losses(reached), main)
        lookups, _ = self._comparable(self._lookups(reached), main)
        if not losses and not lookups:
            is_known = self._losses(reached)
            raise CannotCopy(left_out[0] if left_out else _UNTOUCHED if is_known else _NO_LOSS)
        if not losses and not left_out:
            left_out.append(_NO_LOSS_COMPARED)
        drawn_from = self._drawn_from([*losses, *lookups], main)
        pairs = [*losses, *lookups, *drawn_from]
        shared = self._shared(pairs)
        shared.update(self._weights(self._behind([pair.main.op for pair in pairs])))
        self._refuse_repeats(shared, pairs, main, [*(each.op for each in fetches), *targets])
        draws = [
            copy
            for copies in shared.values()
            for copy in copies
            if copy.op.type in RANDOM and copy.op.name in self._originals
        ]
        return ShadowedStep(
            losses=tuple(losses),
            lookups=tuple(lookups),
            drawn_from=tuple(drawn_from),
            shared=tuple(self._graph.get_tensor_by_name(name) for name in shared),
            copies={name: tuple(copies) for name, copies in shared.items()},
            draws=tuple(draws),
            fetches=tuple(fetches),
            targets=tuple(targets),
            left_out=tuple(left_out),
        )

    def _losses(self, reached: AbstractSet[Any]) -> List[Any]:
        """What the step fetches, one of which may be its loss, and those of the collection."""
        collected = self._graph.get_collection(tf.GraphKeys.LOSSES)
        fed = {operation for operation in reached if operation.type in _OF_ONE_VALUE}
        found = [one for one in self._step.given[0] if _has_numbers(one)]
        for loss in collected:
            behind = self._behind([self._stock.tensor(loss).op])
            is_number = loss.shape.rank == 0 and _has_numbers(loss)
            if is_number and fed.issuperset(_of(behind, _OF_ONE_VALUE)):
                found.append(loss)
        return list({one.name: one for one in found}.values())

    def _lookups(self, reached: AbstractSet[Any]) -> List[Any]:
        """Results of lookups that were fused or moved, if the step needs them."""
        names = dict.fromkeys([*self._name_map.substitutes, *self._name_map.taken])
        tensors = [self._graph.get_tensor_by_name(name) for name in names]
        return [
            one
            for one in tensors
            if one.dtype.is_floating
            and one.name not in self._stock.batches
            and not is_in_control_flow(one.op)
            and self._stock.tensor(one).op in reached
        ]

    def _comparable(
        self, tensors: Iterable[Any], main: AbstractSet[Any]
    ) -> Tuple[List[Pair], List[str]]:
        """Those of the tensors that both graphs can compute without training."""
        found: List[Pair] = []
        left_out: List[str] = []
        for tensor in tensors:
            stock = self._stock.tensor(tensor)
            if stock is tensor or any(tensor is fed for fed in self._feeds):
                continue
            in_main = self._in_main(tensor)
            why = self._in_the_way(self._behind([stock.op]) | self._behind([in_main.op]))
            if why:
                left_out.append("'{}': {}".format(tensor.name, why))
            else:
                found.append(Pair(tensor.name, in_main, stock))
        return found, left_out

    def _in_main(self, tensor: Any) -> Any:
        """The tensor that has its value in a training step."""
        given = self._step.given
        return self._names.resolved([tensor, *given[0]], given[1], self._feeds).fetches[0]

    def _in_the_way(self, operations: AbstractSet[Any]) -> str:
        """Why these operations cannot run beside the step; "" if they can."""
        for operation in operations:
            text = _fault(operation)
            if text:
                return text.format(operation.name, operation.type)
            if not self._is_once(operation):
                continue
            original = self._graph.get_operation_by_name(
                self._originals.get(operation.name, operation.name)
            )
            if is_in_control_flow(original):
                return _NOT_ONCE.format(original.name, original.type)
            if not all(_can_be_fed(tensor) for tensor in operation.outputs):
                return _NOT_FETCHED.format(original.name, original.type)
        return ""

    def _is_once(self, operation: Any) -> bool:
        """Whether what an operation yields is drawn once in a step."""
        kind = operation.type
        if kind in FUNCTION_CALLS:
            return not functions_only_read(operation.node_def, self._functions)
        return kind in CALLS_PYTHON or (may_draw(kind) and not _OURS.match(kind))

    def _drawn_from(self, pairs: Sequence[Pair], main: AbstractSet[Any]) -> List[Pair]:
        """The inputs of what is shared, where the rewritten graph may compute them differently."""
        found: Dict[str, Pair] = {}
        for copy in self._behind([pair.stock.op for pair in pairs]):
            if copy.name not in self._originals or not self._is_once(copy):
                continue
            original = self._graph.get_operation_by_name(self._originals[copy.name])
            if original not in main:
                continue
            for one, other in zip(original.inputs, copy.inputs):
                if one is not other and can_compare(one, other):
                    found[one.name] = Pair(one.name, one, other)
        return [found[name] for name in sorted(found)]

    def _shared(self, pairs: Sequence[Pair]) -> Dict[str, List[Any]]:
        """What the compared tensors need of what is drawn once, and what has its value."""
        found: Dict[str, List[Any]] = {}
        for operation in self._behind([pair.stock.op for pair in pairs]):
            if self._is_once(operation):
                for tensor in operation.outputs:
                    self._note(found, tensor)
        taken = {self._graph.get_tensor_by_name(name).op for name in found}
        for operation in self._behind([pair.main.op for pair in pairs]) | taken:
            if self._is_once(operation):
                if operation.type == BUFFER_TAKE and condition_of(operation) is not None:
                    raise CannotCopy(_CHOSEN.format(operation.name))
                for tensor in operation.outputs:
                    if tensor.consumers():
                        found.setdefault(tensor.name, [])
        return found

    def _note(self, found: Dict[str, List[Any]], tensor: Any) -> None:
        """Notes which tensor of main has the value of a copy, or of what both share."""
        if tensor.op.name in self._sources:
            if tensor.name in self._batches:
                of_user = self._graph.get_tensor_by_name(self._batches[tensor.name])
                found.setdefault(self._names.fetched(of_user).name, []).append(tensor)
            return
        name = self._originals.get(tensor.op.name)
        if name is None:
            found.setdefault(tensor.name, [])
            return
        original = self._graph.get_operation_by_name(name).outputs[tensor.value_index]
        try:
            in_main = self._names.fetched(original)
        except tf.errors.InvalidArgumentError:
            raise CannotCopy(_AHEAD.format(name, original.op.type)) from None
        found.setdefault(in_main.name, []).append(tensor)

    def _weights(self, main: AbstractSet[Any]) -> Dict[str, List[Any]]:
        """Weights that main takes from a stage: as old in the stock graph as in main."""
        puts = {
            stage.puts[0].name for stage in stages_of(self._graph) if stage.pipeline is not None
        }
        buffers = {self._graph.get_operation_by_name(put).get_attr("shared_name") for put in puts}
        takes = {
            each for each in _of(main, (BUFFER_TAKE,)) if each.get_attr("shared_name") in buffers
        }
        if not takes:
            return {}
        found: Dict[str, List[Any]] = {}
        inside = {operation.name for operation in main}
        for edge in moved_inputs(self._graph):
            if edge.node not in inside:
                continue
            after, before = (_named(self._graph, text) for text in (edge.after, edge.before))
            if _is_read(before) and takes.intersection(self._behind([after.op])):
                stock = self._stock.tensor(before)
                if stock not in found.setdefault(after.name, []):
                    found[after.name].append(stock)
        return found

    def _refuse_repeats(
        self,
        shared: Dict[str, List[Any]],
        pairs: Sequence[Pair],
        main: AbstractSet[Any],
        stock: Sequence[Any],
    ) -> None:
        """Refuses steps in which something would be drawn again although its results are fed."""
        fed = [self._graph.get_tensor_by_name(name) for name in shared]
        fed += [copy for copies in shared.values() for copy in copies]
        once = {tensor.op for tensor in fed if self._is_once(tensor.op)}
        ends = {each.op for each in self._step.fetches}.union(self._step.targets, stock)
        ends.update(each.op for pair in pairs for each in (pair.main, pair.stock))
        again = once & operations_behind(ends - once, [*self._feeds, *fed])
        if again:
            first = min(again, key=lambda each: str(each.name))
            raise CannotCopy(_AGAIN.format(first.name, first.type))

    def _behind(self, operations: Iterable[Any]) -> Set[Any]:
        return operations_behind(operations, self._feeds)


def _fault(operation: Any) -> str:
    if operation.type in FINDS_ROWS:
        return _COUNTS_KEYS
    op = operation.type
    return _ACTS if is_use(op, ACTS) or _ACTS_BESIDES.search(op) else ""


def _has_numbers(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating and not is_reference(tensor))


def _can_be_fed(tensor: Any) -> bool:
    return not is_reference(tensor) and tensor.dtype not in (tf.resource, tf.variant)


def _is_read(tensor: Any) -> bool:
    """Whether a tensor is the value of a variable."""
    operation = tensor.op
    while operation.type in _READS:
        operation = operation.inputs[0].op
    return operation.type in VARIABLES


def _of(operations: Iterable[Any], types: Sequence[str]) -> Set[Any]:
    return {operation for operation in operations if operation.type in types}


def _named(graph: Any, text: str) -> Any:
    return graph.get_tensor_by_name(text if ":" in text else text + ":0")
