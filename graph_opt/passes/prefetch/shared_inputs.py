"""Iterators and queues that several nodes of a graph take batches from.

    iterator.get_next() -> lookup
    iterator.get_next() -> evaluation

Each run of one of the nodes moves the position of all. If one of them were read ahead, the others
would get later batches than in TensorFlow.
"""

from __future__ import annotations

from typing import Optional, Set

from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.io_stages import BATCH_SOURCES, ITERATORS
from graph_opt.passes.prefetch.choices import Choice

_SHARED = "batch_source_shared"


def refuse_shared(view: GraphView, source: str, choice: Optional[Choice]) -> Optional[Refusal]:
    """Why batches of a source cannot be read ahead of other nodes that take from its input.

    Args:
      view: The graph.
      source: The node that returns batches.
      choice: The inputs that a step chooses from, if the source stands for several.
    """
    behind = set() if choice is None else set(view.ancestors(choice.iterators))
    own = behind | {source}
    inputs = {name for name in behind if view.op(name) in ITERATORS}
    inputs.update(_input_of(view, name) for name in own if view.op(name) in BATCH_SOURCES)
    for other in view.of_op(*BATCH_SOURCES):
        if other not in own and _input_of(view, other) in inputs:
            need = "an iterator or queue that no other node takes batches from"
            return Refusal(_SHARED, at=source, need=need, saw="'{}'".format(other))
    return None


def _input_of(view: GraphView, source: str) -> str:
    """The iterator or queue that a source takes batches from, also through a `tf.cond`."""
    handle = view.through_identity(view.inputs(source)[0])
    seen: Set[str] = set()
    while view.op(handle.node) in SWITCHES and handle.node not in seen:
        seen.add(handle.node)
        handle = view.through_identity(view.inputs(handle.node)[0])
    return handle.node
