"""Computes what only repeated inputs reach for one row, and repeats it where other rows join.

    user [B] ── lookup [B, 8] ── layer [B, 16] ──┐
    item [B] ── lookup [B, 8] ───────────────── ConcatV2 [B, 24]

    user [B] ── [0:1] ── lookup [1, 8] ── layer [1, 16] ── Tile [B, 16] ──┐
    item [B] ── lookup [B, 8] ────────────────────────────────────────── ConcatV2 [B, 24]

The requests are those of the original graph, in which every input has all rows: so either graph can
serve them. That the rows of the repeated ones are the same is checked in each request.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Sequence, Set, Tuple

from graph_opt.graph.collection import collection_paused
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.ops.library import register_ops
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.micro_batches.values import has_counts
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.optimize import Planned
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.repeated_rows.checked_rows import (
    first_lists,
    first_rows,
    groups_of,
    require_rows,
)
from graph_opt.passes.repeated_rows.classify import Classifier
from graph_opt.passes.repeated_rows.first_rows import FirstRows
from graph_opt.passes.repeated_rows.joined_products import JoinedProducts
from graph_opt.passes.repeated_rows.listed_inputs import ListedInput
from graph_opt.passes.repeated_rows.weighted_sums import WeightedSums
from graph_opt.reporting.tables import counted

_SCOPE = "repeated_rows"
_PRODUCTS = "repeated_products"


@dataclasses.dataclass(frozen=True)
class RequestRows:
    """The tensors of a graph that have the rows of its requests.

    Attributes:
      repeated: Those of which all rows are the same, by the name of the feature.
      varying: The others.
      fetched: What requests fetch.
      requests: The inputs that each kind of request feeds, or is parsed from.
      listed: Repeated features of any number of values in each row, by name.
      varying_lists: The other features of any number of values.
    """

    repeated: Mapping[str, TensorRef]
    varying: Tuple[TensorRef, ...]
    fetched: Tuple[TensorRef, ...]
    requests: Tuple[AbstractSet[TensorRef], ...]
    listed: Mapping[str, ListedInput] = dataclasses.field(default_factory=dict)
    varying_lists: Tuple[ListedInput, ...] = ()


def repeated_rows(graph_def: Any, rows: RequestRows) -> Planned:
    """Computes once what depends on repeated inputs alone.

    Args:
      graph_def: A GraphDef with static shapes, which is not changed.
      rows: What requests feed and fetch.

    Returns:
      The rewrite, which is empty if nothing is computed once; the name map has what stands for
      fetched tensors. The report's refusals tell what is computed for all rows although it reads
      repeated inputs alone.
    """
    register_ops()
    with collection_paused():
        state = PassState.of(graph_def)
        features, refusals = _accepted(state.view, rows.repeated)
        state = state.reporting(refusals=tuple(each.to_dict() for each in refusals))
        if features or rows.listed:
            accepted = dataclasses.replace(rows, repeated=features)
            original = _classifier(state.view, accepted)
            apart = _with_products_apart(state, original, accepted)
            state = _computed_once(apart, accepted, list(_joined(original, accepted)))
    return Planned(state.rewrites, state.name_map, state.report)


def _accepted(
    view: GraphView, repeated: Mapping[str, TensorRef]
) -> Tuple[Dict[str, TensorRef], List[Refusal]]:
    found: Dict[str, TensorRef] = {}
    refusals: List[Refusal] = []
    for feature, tensor in repeated.items():
        try:
            require_rows(view, feature, tensor)
            found[feature] = tensor
        except Refusal as refusal:
            refusals.append(refusal)
    return found, refusals


def _with_products_apart(state: PassState, classifier: Classifier, rows: RequestRows) -> PassState:
    """The graph in which products of what varies and what is repeated are apart.

    It computes the same for requests in which repeated inputs are the same in all rows.
    """
    view = state.view
    repeated = [*rows.repeated.values(), *(each.indices for each in rows.listed.values())]
    if not all(_is_checked(classifier, rows, tensor) for tensor in repeated):
        return state
    writer, edits = NodeWriter(view, free_scope(view, _PRODUCTS), ""), Edits(view)
    fetched = [tensor.node for tensor in rows.fetched]
    replaced: Dict[TensorRef, Tensor] = {
        **JoinedProducts(view, classifier, writer, edits, fetched).replace(),
        **WeightedSums(view, classifier, writer, edits).replace(),
    }
    if not replaced:
        return state
    edits.apply_to_new(writer.nodes)
    rewritten = state.rewritten(edits.rewrite(writer.nodes))
    substitutes = {str(result): str(product.ref) for result, product in replaced.items()}
    dead = dead_nodes(rewritten.view, {result.node for result in replaced})
    kept = rewritten.view.ancestors(_still_fetched(rows, substitutes))
    name_map = dataclasses.replace(rewritten.name_map, substitutes=substitutes)
    return dataclasses.replace(rewritten, name_map=name_map).without(dead.difference(kept))


def _classifier(view: GraphView, rows: RequestRows) -> Classifier:
    listed = [(each, True) for each in rows.listed.values()]
    listed += [(each, False) for each in rows.varying_lists]
    return Classifier(view, tuple(rows.repeated.values()), rows.varying, listed)


def _is_checked(classifier: Classifier, rows: RequestRows, tensor: TensorRef) -> bool:
    """Whether an input is fed together with all others that must have as many rows.

    A feature of any number of values is not compared with what is fed apart from its examples.
    """
    serialized = {each.indices: each.serialized for each in rows.listed.values()}
    lists = (*rows.listed.values(), *rows.varying_lists)
    if any(
        each.indices.node != tensor.node and classifier.has_as_many_rows(tensor, each.indices)
        for each in lists
    ):
        return False
    others = [
        other
        for other in (*rows.repeated.values(), *rows.varying)
        if classifier.has_as_many_rows(tensor, other)
    ]
    if tensor in serialized:
        return all(other.node == tensor.node or other == serialized[tensor] for other in others)
    return all(
        (tensor in request) == (each in request) for request in rows.requests for each in others
    )


def _computed_once(
    state: PassState, rows: RequestRows, joined: Sequence[Tuple[str, TensorRef]]
) -> PassState:
    """The graph in which what is the same for all rows is computed for the first one.

    Args:
      state: The graph.
      rows: What its requests feed and fetch.
      joined: Features, each with an input that must have as many rows.
    """
    view, features = state.view, rows.repeated
    before = state.name_map.substitutes
    fetched = [TensorRef.parse(before.get(str(each), str(each))) for each in rows.fetched]
    classifier = _classifier(view, rows)
    writer = NodeWriter(view, free_scope(view, _SCOPE), "")
    first = first_lists(writer, rows.listed)
    for group in groups_of(features, rows.requests):
        others = {
            _name_of(rows, other): other
            for feature, other in joined
            if feature in group.features and other not in group.features.values()
        }
        first.update(first_rows(writer, group, others))
    copies = FirstRows(view, classifier, first, writer)
    edits = Edits(view)
    moved = _Moved(view, classifier, copies, edits)
    for name, known in classifier.nodes.items():
        if known.is_once:
            moved.move_readers_of(name)
    substitutes = {**before, **_followed(rows.fetched, fetched, moved.fetched(fetched))}
    refusals = _refusals(view, classifier)
    if not copies.copied:
        return state.reporting(refusals=(*state.report.refusals, *refusals))
    rewritten = state.rewritten(edits.rewrite(writer.nodes))
    dead = _unread(rewritten.view, classifier, _still_fetched(rows, substitutes))
    name_map = dataclasses.replace(rewritten.name_map, substitutes=substitutes).with_dead(dead)
    return dataclasses.replace(rewritten, name_map=name_map).reporting(
        _change(copies, [*features, *rows.listed]), refusals=(*state.report.refusals, *refusals)
    )


def _joined(classifier: Classifier, rows: RequestRows) -> Iterator[Tuple[str, TensorRef]]:
    """Features, each with an input that must have as many rows and that the same requests feed."""
    features = list(rows.repeated.values())
    for place, (feature, tensor) in enumerate(rows.repeated.items()):
        for other in (*rows.varying, *features[:place]):
            together = all((tensor in each) == (other in each) for each in rows.requests)
            if together and classifier.has_as_many_rows(tensor, other):
                yield feature, other
                break


def _name_of(rows: RequestRows, tensor: TensorRef) -> str:
    """What messages call an input."""
    named = {each: feature for feature, each in rows.repeated.items()}
    return named.get(tensor, tensor.node)


class _Moved:
    """Has what is computed for all rows read what is computed once.

    Args:
      view: The graph.
      classifier: What is known of its nodes.
      copies: Where copies are made.
      edits: Where edges are moved.
    """

    def __init__(
        self, view: GraphView, classifier: Classifier, copies: FirstRows, edits: Edits
    ) -> None:
        self._view = view
        self._classifier = classifier
        self._copies = copies
        self._edits = edits
        self._shapes: Set[str] = set()

    def move_readers_of(self, name: str) -> None:
        """Moves those readers of a node that are not computed once."""
        uses: Dict[TensorRef, List[Use]] = {}
        for tensor, use in self._view.node_uses(name):
            known = self._classifier.nodes.get(use.consumer)
            if known is None or not known.is_once:
                uses.setdefault(tensor, []).append(use)
        for tensor, readers in uses.items():
            self._move(tensor, readers)

    def _move(self, tensor: TensorRef, readers: Sequence[Use]) -> None:
        value = self._classifier.value(tensor)
        if value is not None and has_counts(value.numbers):
            self._keep_numbers(tensor.node)
            return
        repeated = self._copies.for_all_rows(tensor)
        if repeated is not None:
            self._edits.move(readers, repeated)

    def _keep_numbers(self, name: str) -> None:
        """Has what is computed from shapes for all rows get them from what is computed once."""
        waiting = [name]
        while waiting:
            node = waiting.pop()
            known = self._classifier.nodes.get(node)
            if node in self._shapes or known is None or not known.is_once:
                continue
            self._shapes.add(node)
            if self._view.op(node) != "Shape":
                waiting += [tensor.node for tensor in self._view.inputs(node)]
            elif self._classifier.nodes.get(self._view.inputs(node)[0].node) is not None:
                uses = self._view.uses(TensorRef(node, 0))
                self._edits.move(uses, self._copies.whole_shape(node))

    def fetched(self, tensors: Sequence[TensorRef]) -> Dict[str, str]:
        """What stands for tensors that requests fetch, spelled as signatures do."""
        found: Dict[str, str] = {}
        for tensor in tensors:
            repeated = None
            if self._classifier.is_once(tensor):
                repeated = self._copies.for_all_rows(tensor)
            if repeated is not None:
                found[str(tensor)] = str(repeated.ref)
        return found


def _followed(
    names: Sequence[TensorRef], tensors: Sequence[TensorRef], substitutes: Mapping[str, str]
) -> Dict[str, str]:
    """What stands for tensors of the user's graph, by what stands for those that did so before."""
    found = {str(name): substitutes.get(str(tensor)) for name, tensor in zip(names, tensors)}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _still_fetched(rows: RequestRows, substitutes: Mapping[str, str]) -> List[str]:
    """The nodes that requests fetch from the rewritten graph."""
    named = [substitutes.get(str(tensor), str(tensor)) for tensor in rows.fetched]
    return [TensorRef.parse(name).node for name in named]


def _unread(view: GraphView, classifier: Classifier, fetched: Sequence[str]) -> Set[str]:
    """Nodes that are not needed any more for what requests fetch, because of copies."""
    once = {name for name, known in classifier.nodes.items() if known.is_once}
    return dead_nodes(view, once).difference(view.ancestors(fetched))


def _refusals(view: GraphView, classifier: Classifier) -> List[Dict[str, str]]:
    return [
        refusal.to_dict()
        for name, refusal in classifier.refusals.items()
        if any(tensor.node in classifier.nodes for tensor in view.inputs(name))
    ]


def _change(copies: FirstRows, features: Sequence[str]) -> str:
    computed = "{} computed once for {}".format(
        counted(len(copies.copied), "node"), ", ".join(features)
    )
    if not copies.repeated:
        return computed
    return "{}, {} repeated for all rows".format(computed, counted(len(copies.repeated), "tensor"))
