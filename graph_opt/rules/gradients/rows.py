"""The gradient of a lookup's tables, as `tf.gradients` writes it.

    gradient of the lookup's output = pooled
        -> the gradient of each op between the gathers and the output     gradients/pooling
        -> the IndexedSlices of each gather                               gradients/gather

It is read upstream, starting with the IndexedSlices: each op must be the gradient of the
corresponding forward op and read the same forward tensors. So one op that takes `pooled` and the
lookup's inputs can compute the same IndexedSlices.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.gather import Slices, find_slices, gradients_of_own_op
from graph_opt.rules.gradients.pooling import Pooling, gradient_of_output, pooling
from graph_opt.rules.lookup import GROUP_EMBEDDING_LOOKUP_SPARSE, Lookup
from graph_opt.rules.match.structure import Structure

__all__ = ["RowGradient", "Slices", "require_own_slices", "row_gradients"]

_CODE = "gradient_not_recognised"
_ACCUMULATORS = frozenset(["SparseAccumulatorApplyGradient"])
_PASS_ON = frozenset(["Identity", "Cast", "ConcatV2", "Switch"])


@dataclasses.dataclass(frozen=True)
class RowGradient:
    """One gradient of the tables of one lookup.

    Attributes:
      pooled: The gradient of the lookup's output, with the same shape; the pattern's only input
        besides tensors of the forward part.
      slices: The IndexedSlices of each of the lookup's tables, in order.
      unique: Whether each row occurs only once in a shard's indices.
      nodes: The pattern, from the first reader of `pooled` to the nodes that produce the slices,
        together with the `group_deps` that tie its gradients to others, and the nodes that only
        these keep running.
    """

    pooled: TensorRef
    slices: Tuple[Slices, ...]
    unique: bool
    nodes: Tuple[str, ...]


class _Piece(NamedTuple):
    """The gradient of one shard, up to the point that all shards share."""

    shard: int
    slices: Slices
    joined: TensorRef
    nodes: Tuple[str, ...]


def row_gradients(view: GraphView, lookup: Lookup) -> Tuple[RowGradient, ...]:
    """The gradients of a lookup's tables, in graph order; none where nothing trains them.

    Args:
      view: A graph as Python wrote it, not yet optimized by TensorFlow.
      lookup: One of its lookups.

    Raises:
      Refusal: gradient_not_recognised.

    Example:
      >>> gradient = row_gradients(view, lookup)[0]
      >>> print(gradient.pooled, gradient.slices[0].values)
      gradients/Reshape_grad/Reshape:0 gradients/lookup_grad/SparseSegmentMeanGradV2:0
    """
    try:
        return tuple(_gradients(view, lookup))
    except Refusal as refusal:
        # One code for all the ways in which gradients can differ.
        raise Refusal(_CODE, at=refusal.node, need=refusal.need, saw=refusal.saw) from refusal


def require_own_slices(view: GraphView, gradient: RowGradient) -> None:
    """Refuses a gradient if its readers can tell its IndexedSlices from those that one op returns.

    That op sums duplicates of a row, and returns rows in another order.

    Raises:
      Refusal: gradient_changed_before_update, gradient_accumulated.
    """
    for slices in gradient.slices:
        found = _accumulator(view, slices.indices)
        if found is not None:
            raise Refusal(
                "gradient_accumulated",
                at=found,
                need="a reader of the gradient that does not depend on the order of rows",
                saw=view.op(found),
            )
    if not gradient.unique:
        raise Refusal(
            "gradient_changed_before_update",
            at=gradient.slices[0].values.node,
            need="an update of the gradient as it is, or of a lookup that combines rows",
            saw="an update of a gradient with a row for each id that something else has changed",
        )


def _accumulator(view: GraphView, indices: TensorRef) -> Optional[str]:
    """The conditional accumulator that takes slices of these rows; it expects them in order."""
    seen = {indices}
    waiting = [indices]
    while waiting:
        for use in view.uses(waiting.pop()):
            if view.op(use.consumer) in _ACCUMULATORS:
                return use.consumer
            following = [tensor for tensor, _ in view.node_uses(use.consumer)]
            if view.op(use.consumer) in _PASS_ON:
                waiting += [tensor for tensor in following if tensor not in seen]
                seen.update(following)
    return None


def _gradients(view: GraphView, lookup: Lookup) -> Iterator[RowGradient]:
    if lookup.api == GROUP_EMBEDDING_LOOKUP_SPARSE:
        yield from _of_own_op(view, lookup)
        return
    found = [find_slices(view, lookup, shard) for shard in range(len(lookup.tables))]
    if not any(found):
        return
    path = pooling(view, lookup)
    pieces: Dict[TensorRef, List[_Piece]] = {}
    for shard, slices_of_shard in enumerate(found):
        for gathered in slices_of_shard:
            structure = Structure(view)
            structure.seen.update(dict.fromkeys(gathered.nodes))
            steps = path.shards[shard]
            joined = gradient_of_output(structure, steps, gathered.gradient)
            piece = _Piece(shard, gathered.slices, joined, tuple(structure.seen))
            # Without shards, each IndexedSlices is a separate gradient.
            key = joined if len(lookup.tables) > 1 else gathered.slices.values
            pieces.setdefault(key, []).append(piece)
    for group in pieces.values():
        yield _joined(view, lookup, path, group)


def _of_own_op(view: GraphView, lookup: Lookup) -> Iterator[RowGradient]:
    """The gradients of a lookup by an op of ours, which one op returns for all of its lookups."""
    place = lookup.output.index
    for node in gradients_of_own_op(view, lookup):
        counts = list(view.nodes[node].attr["table_shards"].list.i)
        tables = list(view.nodes[node].attr["lookup_tables"].list.i)
        first, shards = sum(counts[: tables[place]]), sum(counts)
        yield RowGradient(
            pooled=view.inputs(node)[place - len(tables)],
            slices=tuple(
                Slices(values=TensorRef(node, shards + shard), indices=TensorRef(node, shard))
                for shard in range(first, first + len(lookup.tables))
            ),
            unique=True,
            nodes=(node,),
        )


def _joined(view: GraphView, lookup: Lookup, path: Pooling, pieces: List[_Piece]) -> RowGradient:
    shards = [piece.shard for piece in pieces]
    if shards != list(range(len(lookup.tables))):
        raise Refusal(
            _CODE,
            at=pieces[0].slices.values.node,
            need="a gradient of each of {} shards".format(len(lookup.tables)),
            saw="gradients of shards {}".format(shards),
        )
    structure = Structure(view)
    for piece in pieces:
        structure.seen.update(dict.fromkeys(piece.nodes))
    pooled = gradient_of_output(structure, path.common, pieces[0].joined)
    return RowGradient(
        pooled=pooled,
        slices=tuple(piece.slices for piece in pieces),
        unique=path.unique,
        nodes=tuple(dict.fromkeys([*structure.seen, *_tied(view, structure.seen)])),
    )


def _tied(view: GraphView, nodes: Dict[str, None]) -> Iterator[str]:
    """What `tf.tuple` adds to gradients: a NoOp, and Identity nodes that nothing reads."""
    for name in nodes:
        if view.op(name) != "Identity":
            continue
        for group in view.controls(name):
            if view.op(group) != "NoOp":
                continue
            yield group
            for waiting in view.control_uses(group):
                if view.op(waiting) == "Identity" and not view.successors(waiting):
                    yield waiting
