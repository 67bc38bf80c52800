"""Where a prefetch region is cut: which tensors cross to main, and which need not.

    moved      nodes that run in prefetch
    recomputed moved nodes that main computes again, from tensors that cross anyway or are smaller
    absorbed   nodes of main that join prefetch, since they need only the shape of a tensor
    boundary   tensors of (moved + absorbed - recomputed) that main reads

Three principles keep the boundary small, in this order. A tensor that main reads only for its shape
never crosses: the shape op moves and a few integers cross. A tensor that an op expanded (Tile) does
not cross if it would be copied to get to the buffer, from another task or a GPU: its small input
does. A tensor that is another view of one that crosses (Reshape, Cast, StridedSlice) is computed
from that one.

The source's outputs cross whether main reads them or not: scripts fetch row numbers or keys with
the step, and since elements hold references, it costs nothing. What the session's first run or its
hooks fetch counts as read by main.

State is never staged: variables and handles stay outside, and both sides read the table itself.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, Iterable, List, NamedTuple, Sequence, Set, Tuple

from graph_opt.compat.op_definitions import is_stateful, is_value
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.io_stages import is_buffer
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.passes.tasks import on_cpu, runs_on_cpu
from graph_opt.passes.unused_gradients import UnusedGradients
from graph_opt.rules.lookup import MARKED

_SHAPE_READERS = frozenset(["Shape", "Size", "Rank"])
_ZEROS_READERS = frozenset(["ZerosLike", "OnesLike"])
_EXPANDERS = frozenset(["Tile", "BroadcastTo", "Fill"])
_VIEWS = frozenset(
    [
        "Identity", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "EnsureShape", "Cast",
        "StridedSlice", "Slice",
    ]
)  # fmt: skip


class Boundary(NamedTuple):
    """One region's cut.

    Attributes:
      tensors: The tensors that cross, in topological order of their producers.
      absorbed: Nodes of main that join prefetch.
      recomputed: Nodes of the region that main computes again.
      zeros: Maps ZerosLike and OnesLike nodes of main whose input does not cross to that input.
      hidden: Nodes that exist only in prefetch.
      broken: Unused gradients that read what does not cross; they must not be forced to run.
    """

    tensors: Tuple[TensorRef, ...]
    absorbed: Tuple[str, ...]
    recomputed: FrozenSet[str]
    zeros: Dict[str, TensorRef]
    hidden: Dict[str, None]
    broken: FrozenSet[str]


class BoundaryFinder:
    """Finds the cut of one region.

    Args:
      view: The graph.
      region: What moves.
      batch_nodes: Nodes that any batch reaches; all others may be read from both sides.
      order: Position of each of these nodes in topological order.
      unused: Gradients whose reads do not count.
      fetched: Tensors that the session fetches, which count as read by main.
    """

    def __init__(
        self,
        view: GraphView,
        region: PrefetchRegion,
        batch_nodes: Iterable[str],
        order: Dict[str, int],
        unused: UnusedGradients,
        fetched: AbstractSet[TensorRef] = frozenset(),
    ) -> None:
        self._view = view
        self._region = region
        self._fetched = fetched
        self._batch_nodes = batch_nodes
        self._order = order
        self._unused = unused.nodes
        self._moved: Dict[str, None] = dict.fromkeys((region.source,) + region.nodes)
        self._absorbed: List[str] = []
        self._zeros: Dict[str, TensorRef] = {}
        self._recomputed: Set[str] = set()

    def find(self) -> Boundary:
        """Applies the three principles; see the module's docstring."""
        needed = self._needed()
        needed = self._shrink_expanded(needed)
        needed = self._drop_views(needed)
        needed.update(dict.fromkeys(self._source_outputs()))
        tensors = tuple(sorted(needed, key=self._position))
        hidden = {
            name: None
            for name in list(self._moved) + self._absorbed
            if name not in self._recomputed
        }
        return Boundary(
            tensors=tensors,
            absorbed=tuple(self._absorbed),
            recomputed=frozenset(self._recomputed),
            zeros=dict(self._zeros),
            hidden=hidden,
            broken=self._broken(hidden, set(tensors)),
        )

    def _position(self, tensor: TensorRef) -> Tuple[int, int]:
        return self._order[tensor.node], tensor.index

    def _needed(self) -> Dict[TensorRef, None]:
        """Tensors whose values main reads, and results that may be fetched."""
        needed = dict.fromkeys(
            tensor
            for name in self._region.nodes
            if name not in self._region.conditional
            for tensor in self._outputs(name)
            if tensor in self._fetched
        )
        for lookup in self._region.lookups:
            if lookup.api == MARKED or not self._view.uses(lookup.output):
                needed[lookup.output] = None
        for name in list(self._moved):
            for tensor, uses in self._uses_in_main(name):
                if tensor in needed or not self._only_shape(uses):
                    needed[tensor] = None
                    continue
                self._ship_shape(tensor, uses, needed)
        return needed

    def _source_outputs(self) -> List[TensorRef]:
        source = self._region.source
        outputs = self._outputs(source)
        if is_buffer(self._view, source):  # its last output is not part of the batch
            outputs = outputs[: len(self._view.nodes[source].attr["dtypes"].list.type)]
        return outputs

    def _outputs(self, name: str) -> List[TensorRef]:
        """The outputs of a node that are values."""
        dtypes = self._view.dtypes(name) or []
        return [TensorRef(name, index) for index, number in enumerate(dtypes) if is_value(number)]

    def _uses_in_main(self, name: str) -> List[Tuple[TensorRef, List[Use]]]:
        found: Dict[TensorRef, List[Use]] = {}
        for tensor, use in self._view.node_uses(name):
            if use.consumer not in self._moved and use.consumer not in self._unused:
                found.setdefault(tensor, []).append(use)
        return list(found.items())

    def _only_shape(self, uses: Sequence[Use]) -> bool:
        return all(self._reads_shape_only(use.consumer) for use in uses)

    def _reads_shape_only(self, consumer: str) -> bool:
        op = self._view.op(consumer)
        if op in _ZEROS_READERS:
            return True
        controls = self._view.controls(consumer)
        return op in _SHAPE_READERS and all(source in self._moved for source in controls)

    def _ship_shape(
        self, tensor: TensorRef, uses: Sequence[Use], needed: Dict[TensorRef, None]
    ) -> None:
        for use in uses:
            if self._view.op(use.consumer) in _ZEROS_READERS:
                self._zeros[use.consumer] = tensor
                continue
            self._absorbed.append(use.consumer)
            needed[TensorRef(use.consumer, 0)] = None

    def _batch_inputs(self, name: str) -> List[TensorRef]:
        return [t for t in self._view.inputs(name) if t.node in self._batch_nodes]

    def _may_recompute(self, name: str) -> bool:
        return (
            name in self._moved
            and name != self._region.source
            and not is_stateful(self._view.op(name))
        )

    def _is_beside_buffer(self, name: str) -> bool:
        """Whether the buffer, which is at the source, holds tensors of a node without a copy.

        Main would then spend time on computing again what prefetch has, and save only memory.
        """
        device, source = self._view.device(name), self._view.device(self._region.source)
        return runs_on_cpu(device) and (on_cpu(device) or on_cpu(source)) == on_cpu(source)

    def _shrink_expanded(self, needed: Dict[TensorRef, None]) -> Dict[TensorRef, None]:
        outputs = {lookup.output for lookup in self._region.lookups}
        pending = [t for t in needed if self._view.op(t.node) in _EXPANDERS and t not in outputs]
        kept = dict(needed)
        while pending:
            tensor = pending.pop()
            if not self._may_recompute(tensor.node) or self._is_beside_buffer(tensor.node):
                continue
            kept.pop(tensor, None)
            self._recomputed.add(tensor.node)
            for source in self._batch_inputs(tensor.node):
                if source in kept or source.node in self._recomputed:
                    continue
                if self._view.op(source.node) in _EXPANDERS:
                    pending.append(source)
                kept[source] = None
        return kept

    def _drop_views(self, needed: Dict[TensorRef, None]) -> Dict[TensorRef, None]:
        kept: Dict[TensorRef, None] = {}
        for tensor in sorted(needed, key=self._position):
            if not self._is_view_of(tensor, kept):
                kept[tensor] = None
                continue
            self._recomputed.add(tensor.node)
        return kept

    def _is_view_of(self, tensor: TensorRef, kept: Dict[TensorRef, None]) -> bool:
        name = tensor.node
        if self._view.op(name) not in _VIEWS or not self._may_recompute(name):
            return False
        return all(
            source in kept or source.node in self._recomputed for source in self._batch_inputs(name)
        )

    def _broken(self, hidden: Dict[str, None], tensors: Set[TensorRef]) -> FrozenSet[str]:
        broken: Set[str] = set()
        pending = [
            name
            for name in self._unused
            if any(t.node in hidden and t not in tensors for t in self._view.inputs(name))
        ]
        while pending:
            name = pending.pop()
            if name in broken:
                continue
            broken.add(name)
            readers = (use.consumer for _, use in self._view.node_uses(name))
            pending.extend(reader for reader in readers if reader in self._unused)
        return frozenset(broken)
