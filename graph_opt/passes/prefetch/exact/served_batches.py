"""Rows of servers for the next step, asked for behind the update of this one.

    main       PackGradients ══> ApplyPacked
                    └─> NextServedBatch ══> behind it: Gather ══> KeepServedBatch
    next step  TakeServedRows ─> what was kept, if no other update has begun since

Where servers pool bags, any update makes old what they sent before, so nothing is asked for ahead
of it. To ask in the step that needs them is another round trip, for which main waits. To ask behind
the update takes no longer than its answer does.

What a step asks for is the batch that has waited longest. If the next step takes another one, or
another update of these tables has begun, TakeServedRows has main ask itself, behind a `Switch`.
Nothing waits for anything, so nothing can hang, whatever a step takes, updates or fails at.
"""

from __future__ import annotations

from typing import Any, Container, Iterable, List, Mapping, Sequence

from graph_opt.graph.edits import Edits
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.prefetch.exact.exact_tables import table_writes
from graph_opt.passes.prefetch.exact.served_rows import (
    ServedLookup,
    gather_again,
    of_lookup,
    pack_of,
)
from graph_opt.passes.tasks import task_of
from graph_opt.passes.transfers.training_ends import training_ends
from graph_opt.rules.op_names import KEEP_BATCH, NEXT_SERVED


def ask_behind_updates(
    view: GraphView,
    lookups: Sequence[ServedLookup],
    keeps: Mapping[str, str],
    scope: str,
    bounded: Container[str],
) -> Rewrite:
    """Has steps ask for what the next step needs of these lookups.

    Args:
      view: The graph.
      lookups: Lookups of which servers may pool bags.
      keeps: For each packed update the node that keeps its answer; every step that updates runs it.
      scope: Where nodes are added.
      bounded: The variables whose rows are refreshed.
    """
    nodes: List[Any] = []
    edits = Edits(view)
    for lookup in lookups:
        updates = _updates_of_a_step(view, lookup)
        if not updates:
            continue
        added = _asking(view, lookup, updates, scope, bounded)
        nodes += added
        for update in updates:
            edits.wait(keeps[update], added[-1].name)
    return edits.rewrite(nodes)


def _updates_of_a_step(view: GraphView, lookup: ServedLookup) -> List[str]:
    """The updates of a lookup's tables; none if some steps run only some of them."""
    updates = {name: None for shard in lookup.shards for name in table_writes(view, shard).packed}
    if len(_packs_of(view, updates)) > 1:
        ends = training_ends(view)
        if len({ends.get(update) for update in updates}) > 1:
            return []
    return list(updates)


def _packs_of(view: GraphView, updates: Iterable[str]) -> List[str]:
    return list(dict.fromkeys(pack_of(view, update) for update in updates))


def _asking(
    view: GraphView,
    lookup: ServedLookup,
    updates: Sequence[str],
    scope: str,
    bounded: Container[str],
) -> List[Any]:
    """The nodes, the last of which keeps what servers send."""
    count, packs = len(lookup.gathers), _packs_of(view, updates)
    name = "{}/{}/next".format(scope, lookup.combine)
    worker = NodeWriter(view, name, view.device(lookup.prepare))
    asked = worker.call(
        "batch",
        NEXT_SERVED,
        waits_for=packs,
        num_servers=count,
        num_updates=len(packs),
        **of_lookup(view, lookup, bounded),
    )
    rows = []
    for i, (gather, request) in enumerate(zip(lookup.gathers, asked.outputs("requests"))):
        task = task_of(view.device(gather))
        behind = [update for update in updates if task_of(view.device(update)) == task]
        rows.append(gather_again(view, gather, worker, "rows_{}".format(i), request, behind))
    worker.call("keep", KEEP_BATCH, rows=rows, next=asked.output("next"))
    return worker.nodes
