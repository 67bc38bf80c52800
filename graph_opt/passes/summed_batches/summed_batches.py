"""Trains on several batches in a step, by the sum of their gradients: DeepRec's micro-batches.

    before  batch -> layers -> loss -> gradients -> update
    after   batch 0 -> layers -> loss -> gradients ---+
            batch 1 -> layers ---------> gradients ---+ sum -> update

The user's nodes compute the first batch, and their copies the others. What is no gradient (losses,
predictions, metrics, moving averages) is computed once, from the first batch.
"""

from __future__ import annotations

import dataclasses

from graph_opt.config.micro_batches import BATCHES
from graph_opt.config.options import SessionOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.applied_once import marked, refuse_again
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.summed_batches.batch_copies import SUMMED, BatchCopies
from graph_opt.passes.summed_batches.batch_part import batch_part
from graph_opt.passes.summed_batches.gradients import taken_gradients
from graph_opt.passes.summed_batches.pulls import pull
from graph_opt.reporting.report import MICRO_BATCHES
from graph_opt.reporting.tables import counted

_SCOPE = "summed_batches"
_SUMMED = "each step trains on {} batches: {} copied, {} summed, {} joined"
_AGAIN = (
    "steps of the graph were made to train on several batches before (node '{}'): "
    "micro_batch_num is"
)
_SINGLE = MICRO_BATCHES + "each step trains on one batch: {}"


def summed_batches(state: PassState, options: SessionOptions) -> PassState:
    """Has updates take gradients of several batches, if that is asked for and possible.

    Raises:
      FailedPreconditionError: They do so already.
    """
    wanted = options.micro_batches
    if wanted is None or wanted.rule != BATCHES:
        return state
    summed = marked(state.view, SUMMED, "AddV2", "ConcatV2")
    refuse_again(summed, _AGAIN)
    try:
        return _summed(state, wanted.number, options)
    except Refusal as refusal:
        return state.reporting(
            left_alone=(*state.report.left_alone, _SINGLE.format(refusal)),
            refusals=(*state.report.refusals, refusal.to_dict()),
        )


def _summed(state: PassState, number: int, options: SessionOptions) -> PassState:
    view = state.view
    gradients = taken_gradients(view, view.of_op(*BATCH_SOURCES, BUFFER_TAKE))
    if not gradients:
        raise _no_batch(view)
    part = batch_part(view, [each.tensor.node for each in gradients])
    scope = free_scope(view, _SCOPE)
    pulled = pull(view, part.sources, number, options, scope)
    writer = NodeWriter(view, scope, "")
    copies = BatchCopies(view, part, number, pulled.batches, writer)
    copies.write()
    for gradient in gradients:
        copies.sum(gradient, pulled.edits)
    updates = {use.consumer for each in gradients for use in each.uses}
    copies.wait(updates, pulled.edits)
    changed = state.rewritten(pulled.edits.rewrite((*pulled.nodes, *writer.nodes)))
    before = changed.name_map
    name_map = dataclasses.replace(
        before, substitutes={**before.substitutes, **pulled.substitutes}, summed_batches=scope
    )
    joined = sum(each.joined for each in gradients)
    line = _SUMMED.format(
        number,
        counted(len(part.nodes), "node"),
        counted(len(gradients) - joined, "gradient"),
        counted(joined, "tensor"),
    )
    return dataclasses.replace(changed, name_map=name_map).reporting(micro_batches=line)


def _no_batch(view: GraphView) -> Refusal:
    need = "updates by gradients of batches that an iterator, a queue or an IO stage returns"
    fed = view.of_op("Placeholder", "PlaceholderV2")
    saw = "batches that are fed" if fed else "no such update"
    return Refusal("no_source_to_pull", at=(fed or sorted(view.nodes))[0], need=need, saw=saw)
