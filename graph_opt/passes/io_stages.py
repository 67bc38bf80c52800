"""Finds where batches enter a graph and which nodes each batch reaches."""

from __future__ import annotations

from typing import AbstractSet, Collection, Dict, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.graph.control_flow_ops import BACK_EDGE_SOURCES
from graph_opt.graph.view import GraphView
from graph_opt.ops.stage_nodes import BUFFER_PUT as BUFFER_PUT
from graph_opt.ops.stage_nodes import BUFFER_TAKE as BUFFER_TAKE
from graph_opt.ops.stage_spec import STAND_IN, has_spec, is_stand_in, spec_of

# Ops after which an IO stage can be inserted: they return one batch each time they run.
BATCH_SOURCES = (
    "IteratorGetNext",
    "IteratorGetNextSync",
    "QueueDequeue",
    "QueueDequeueV2",
    "QueueDequeueMany",
    "QueueDequeueManyV2",
    "QueueDequeueUpTo",
    "QueueDequeueUpToV2",
)
ITERATORS = ("IteratorV2", "Iterator", "OneShotIterator")
MAKE_ITERATOR = "MakeIterator"
"""What gives an iterator its dataset: the first input is the dataset, the second the iterator."""


class BatchFlow(NamedTuple):
    """Which batch source each node depends on.

    Attributes:
      order: All nodes, every node after its inputs.
      sources: Names of the batch sources; bit `i` of a mask stands for `sources[i]`.
      masks: For each node that some batch reaches (including the sources), the bits of its sources.
    """

    order: Tuple[str, ...]
    sources: Tuple[str, ...]
    masks: Dict[str, int]


def is_buffer(view: GraphView, source: str) -> bool:
    """Whether the source already is the buffer of an IO stage, so that none need be inserted."""
    return view.op(source) == BUFFER_TAKE


def is_stage(view: GraphView, source: str) -> bool:
    """Whether the source is a stage's buffer or, in an exported graph, the stand-in for one."""
    return is_buffer(view, source) or is_stand_in(view.nodes[source])


def stage_puts(view: GraphView, kind: Optional[str] = None) -> List[str]:
    """The puts that the threads of stages run: all of them, or those of one kind of stage."""
    puts = [put for put in view.of_op(BUFFER_PUT) if has_spec(view.nodes[put])]
    return [put for put in puts if kind is None or spec_of(view.nodes[put]).kind == kind]


def batch_flow(
    view: GraphView,
    choices: Collection[str] = (),
    absorbed: AbstractSet[str] = frozenset(),
) -> BatchFlow:
    """Follows every batch source downstream, along data and control edges.

    Args:
      view: The graph.
      choices: Nodes that return a batch of one of several inputs, which makes them sources.
      absorbed: The sources behind them, which do not count.

    Raises:
      InvalidArgumentError: The graph has a cycle that is not a while loop.
    """
    order = view.topological_order()
    if order is None:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "the graph has a cycle that is not a while loop, so it is not a valid GraphDef",
        )
    stand_ins = [name for name in view.of_op(STAND_IN) if is_stand_in(view.nodes[name])]
    given = [*view.of_op(BUFFER_TAKE, *BATCH_SOURCES), *stand_ins]
    sources = tuple(dict.fromkeys([*(name for name in given if name not in absorbed), *choices]))
    stages = {source for source in sources if is_stage(view, source)}
    masks: Dict[str, int] = {source: 1 << i for i, source in enumerate(sources)}
    view.spread(masks, stages)
    while _loops_begin_anew(view, masks):
        view.spread(masks, stages)
    return BatchFlow(tuple(order), sources, masks)


def _loops_begin_anew(view: GraphView, masks: Dict[str, int]) -> bool:
    """Adds to masks what reaches the begin of a loop from its end; whether there is more."""
    anew = False
    for name in view.of_op(*sorted(BACK_EDGE_SOURCES)):
        for merge in view.readers(name):
            before = masks.get(merge, 0)
            after = before | masks.get(name, 0)
            if after != before:
                masks[merge] = after
                anew = True
    return anew


def sources_of(flow: BatchFlow, mask: int) -> List[str]:
    """Names of the sources whose bits are set."""
    return [source for i, source in enumerate(flow.sources) if mask >> i & 1]
