"""Lets ranks meet at the messages of a script, whatever each of them fetches, and end together.

    before   batch ─┬─ ids ══► gather ─ pooled rows         batch ── If(several, examples) ─ ...
                    └─ examples ══► all ranks
    after    batch ─┬─ ids ══► gather ─ pooled rows         batch ── examples ══► all ranks ─ ...
                    └─ examples ─(waits for gather)══►

All ranks learn from the ids of an exchange that one of them has no batch. A message of the script
that was sent by then would wait for that rank: it is sent once the exchange is known to go on.
"""

from __future__ import annotations

from typing import List, Set

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.view import GraphView
from graph_opt.passes.conditional_collectives import fold_functions
from graph_opt.passes.io_stages import batch_flow, stage_puts
from graph_opt.passes.messages_in_functions import call_functions
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.gradients.allgather import GATHERS
from graph_opt.rules.op_names import EXCHANGE_GATHERS, is_collective

_OURS = "graph_opt_"
_MESSAGE = "message"  # the attribute with the name of a message of ours
_CHANGE = "{} to other ranks sent after lookups: ranks end together"


def meet_other_ranks(state: PassState, options: SessionOptions) -> PassState:
    """Does so if this is one of several ranks; of elastic ones only the names are alike."""
    ranks = options.ranks
    if not options.ask_for_anything or ranks is None:
        return state
    if ranks.elastic:
        return call_functions(state)
    return state if ranks.size == 1 else _sent_after_lookups(call_functions(fold_functions(state)))


def _sent_after_lookups(state: PassState) -> PassState:
    """Has messages of the script wait for exchanges that read the same batches, and no others."""
    view = state.view
    ahead = view.ancestors(stage_puts(view))
    gathers = [name for name in view.of_op(*sorted(EXCHANGE_GATHERS)) if name not in ahead]
    if not gathers:
        return state
    behind = {gather: view.descendants([gather]) for gather in gathers}
    before = view.ancestors(gathers)
    masks, edits = batch_flow(view).masks, Edits(view)
    waiting: Set[str] = set()
    for name in _messages_of_script(view):
        mask = masks.get(name, 0)
        for gather in gathers if name not in before and name not in ahead else ():
            awaits = masks.get(gather, 0)
            if awaits and awaits | mask == mask and name not in behind[gather]:
                edits.wait(name, gather)
                waiting.add(name)
    if not waiting:
        return state
    change = _CHANGE.format(counted(len(waiting), "message"))
    return state.rewritten(edits.rewrite()).reporting(change)


def _messages_of_script(view: GraphView) -> List[str]:
    """The nodes that send something to other ranks that is none of our messages."""
    # Of a table that was sharded before, the gathers are left, which nothing reads.
    left = {name for name in view.of_op(*GATHERS) if not view.node_uses(name)}
    names = view.of_op(*(op for op in view.ops() if is_collective(op)))
    return [one for one in names if one not in left and not _message(view, one).startswith(_OURS)]


def _message(view: GraphView, name: str) -> str:
    """The name of a message, without scopes."""
    own = view.attribute(name, _MESSAGE)
    return name.rpartition("/")[2] if own is None else tf.compat.as_str(own.s)
