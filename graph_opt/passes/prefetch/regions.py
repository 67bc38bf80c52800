"""Finds all prefetch regions of a graph, wherever its batches come from."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Optional, Sequence, Tuple

from graph_opt.config.options import AsyncEmbeddingOptions
from graph_opt.graph.rewrite import edited_nodes
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import KIND_IO
from graph_opt.passes.io_stages import BatchFlow, batch_flow, sources_of, stage_puts
from graph_opt.passes.prefetch.choices import Choice, fed_iterators
from graph_opt.passes.prefetch.conditional_inputs import (
    NOT_JOINED,
    JoinedInputs,
    functional_conditionals,
    join_conditional_inputs,
)
from graph_opt.passes.prefetch.movable import Movability
from graph_opt.passes.prefetch.region import RegionFinder, RegionSearch
from graph_opt.rules.lookup import Lookup


def joined_inputs(view: GraphView, infer_io_stage: bool) -> JoinedInputs:
    """The conditionals behind which an IO stage may be inserted."""
    return join_conditional_inputs(view) if infer_io_stage else NOT_JOINED


class BatchInputs:
    """Where the batches of a graph come from.

    Args:
      view: The graph, with an IdentityN behind each tf.cond that chooses an input.
      infer_io_stage: Whether an IO stage may be inserted.
      joined: These IdentityN nodes.

    Attributes:
      choices: The nodes that return a batch of one of several inputs, by name.
      flow: What each batch reaches.
    """

    def __init__(self, view: GraphView, infer_io_stage: bool, joined: JoinedInputs) -> None:
        self._view = view
        self._infer_io_stage = infer_io_stage
        self.choices: Dict[str, Choice] = {}
        if infer_io_stage:
            self.choices.update(fed_iterators(view))
            self.choices.update(functional_conditionals(view))
            self.choices.update(joined.choices(view))
        self.flow: BatchFlow = batch_flow(view, self.choices, joined.absorbed)

    def regions(self, lookups: Sequence[Lookup], threads_num: int) -> RegionSearch:
        """What moves with these lookups into this many threads, and why some of them stay."""
        movability = Movability(self._view, threads_num)
        infer = self._infer_io_stage
        return RegionFinder(self._view, self.flow, lookups, movability, infer, self.choices).find()

    def sizes(self, prefetched: int) -> Dict[str, int]:
        """The number of nodes in each region of the graph, of which this many are prefetched."""
        sources = list(self.flow.sources)
        upstream = self._view.ancestors(stage_puts(self._view, KIND_IO) + sources)
        io = [name for name in upstream if name not in self.flow.masks or name in sources]
        return {
            "io": len(io),
            "prefetch": prefetched,
            "main": len(self._view) - len(io) - prefetched,
        }


def staying_lookups(
    view: GraphView, lookups: Sequence[Lookup], options: Optional[AsyncEmbeddingOptions]
) -> FrozenSet[TensorRef]:
    """The results of the lookups that cannot be prefetched; none if nothing is to be.

    Args:
      view: The graph.
      lookups: Its lookups.
      options: The options of the prefetch; None if it is off.
    """
    if options is None:
        return frozenset()
    inputs = _batch_inputs(view, options)
    refused = inputs.regions(lookups, options.threads_num).refused
    return frozenset(lookup.output for lookup, _ in refused)


def sources_behind(
    view: GraphView, nodes: Iterable[str], options: AsyncEmbeddingOptions
) -> Tuple[str, ...]:
    """The inputs that any of these nodes has its batch from.

    Args:
      view: The graph.
      nodes: Names of nodes.
      options: The options of the prefetch.
    """
    flow = _batch_inputs(view, options).flow
    reached = 0
    for name in nodes:
        reached |= flow.masks.get(name, 0)
    return tuple(sources_of(flow, reached))


def _batch_inputs(view: GraphView, options: AsyncEmbeddingOptions) -> BatchInputs:
    joined = joined_inputs(view, options.infer_io_stage)
    if joined.rewrite:
        view = view.after(edited_nodes(view.nodes, joined.rewrite), joined.rewrite.nodes)
    return BatchInputs(view, options.infer_io_stage, joined)
