"""Lookups that training does not need: TensorFlow runs them only when they are fetched.

If they were fused or moved, they would run in every step. So a graph that trains keeps them
unchanged; in any other graph, every lookup is there to be fetched.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Sequence

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.stateful_ops import HANDLES, PLACEHOLDERS, RANDOM, READS, VARIABLES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.frozen_tables import trains_nothing
from graph_opt.rules.lookup import MARKED, Lookup
from graph_opt.rules.lookups.marked import MARK

_NO_ACTS = VARIABLES | HANDLES | PLACEHOLDERS | RANDOM | READS


def unused_lookups(
    view: GraphView, lookups: Sequence[Lookup], fetched: AbstractSet[TensorRef] = frozenset()
) -> Dict[str, Refusal]:
    """The lookups on which no op that changes state depends, by name of their output.

    Args:
      view: The graph.
      lookups: All its lookups; marked tensors, and what they depend on, count as used.
      fetched: Tensors that the session fetches, which count as used, too.

    Returns:
      The reason for each; none if the graph trains nothing.
    """
    if trains_nothing(view):
        return {}
    ends: List[str] = [lookup.output.node for lookup in lookups if _is_marked(view, lookup)]
    ends += view.of_op(*sorted(op for op in view.ops() if op not in _NO_ACTS and is_stateful(op)))
    ends += [tensor.node for tensor in fetched if tensor.node in view]
    used = view.ancestors(ends)
    return {
        str(lookup.output): Refusal(
            "not_used_in_training",
            at=lookup.output.node,
            need="a result that some update depends on, or a mark (async_embedding_mark_node)",
            saw="a result that is only there to be fetched",
        )
        for lookup in lookups
        if lookup.output.node not in used
    }


def _is_marked(view: GraphView, lookup: Lookup) -> bool:
    return lookup.api == MARKED or view.attribute(lookup.output.node, MARK) is not None
