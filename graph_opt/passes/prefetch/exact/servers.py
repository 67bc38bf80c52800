"""Which lookups of tables on servers run ahead with the rows that a step would have read itself.

What is written for them, and why it suffices, is told in served_rows.py and served_batches.py.
"""

from __future__ import annotations

from typing import Dict, List, Sequence

from graph_opt.graph.view import GraphView
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact.exact_tables import (
    ReadAgain,
    refuse_place,
    refuse_writer,
    worker,
)
from graph_opt.passes.prefetch.exact.kind import Asked, ExactKind, Written
from graph_opt.passes.prefetch.exact.served_batches import ask_behind_updates
from graph_opt.passes.prefetch.exact.served_rows import (
    ServedLookup,
    in_order,
    keep_answers,
    pack_of,
    read_again,
    refresh,
    variables_of,
)
from graph_opt.passes.tasks import task_of
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.op_names import GROUP_GATHERS, GROUP_PACK, GROUP_PREPARE

_CHANGE = (
    "{} with exact rows of servers: no update of this worker is missed; other workers' updates are "
    "seen as a synchronous worker would see them"
)
_POOLED = (
    "{} with exact rows of servers, which pool bags where that is clearly less to send: such "
    "batches are asked for behind the update of the step before, not ahead of it"
)


class ExactOnServers(ExactKind):
    """See `ExactKind`: tables on parameter servers."""

    def __init__(self, view: GraphView, asked: Asked) -> None:
        super().__init__(view, asked)
        self._found: List[ServedLookup] = []

    def take(self, lookup: Lookup) -> None:
        """See `ExactKind`."""
        view, name = self.view, lookup.output.node
        count = view.nodes[name].attr["num_servers"].i
        gathers = tuple(tensor.node for tensor in view.inputs(name)[:count])
        prepare = view.inputs(name)[count].node
        own = view.op(prepare) == GROUP_PREPARE and all(
            view.op(g) in GROUP_GATHERS for g in gathers
        )
        if not own:
            raise refuse_place(name, "a lookup that the model itself divides among servers")
        for gather in gathers:
            self.require_in_steps(gather, gather)
        by_server = [variables_of(view, view.inputs(gather)[:-1]) for gather in gathers]
        servers = view.nodes[prepare].attr["shard_servers"].list.i
        shards = in_order(list(servers), by_server)
        for shard in (each for each in shards if each in self.asked.bounded):
            self._require_answers(shard, view.device(prepare))
        self._found.append(ServedLookup(name, prepare, gathers, shards))

    @property
    def lookups(self) -> Sequence[str]:
        """See `ExactKind`."""
        return [each.combine for each in self._found]

    def write(self, state: PassState) -> Written:
        """See `ExactKind`."""
        scope, bounded, pools = self.asked.scope, self.asked.bounded, self._may_pool()
        replaced: Dict[str, str] = {}
        again: List[ReadAgain] = []
        for lookup in self._found:
            step, reads = read_again(state.view, lookup, scope, bounded)
            state = state.rewritten(step)
            again.append(reads)
            step, fresh = refresh(state.view, lookup, scope, bounded, pools)
            state = state.rewritten(step)
            replaced.update(fresh)
        followers = {
            shard: worker(self.view.device(each.prepare))
            for each in self._found
            for shard in each.shards
            if shard in bounded
        }
        step, keeps = keep_answers(state.view, followers.keys(), scope)
        state = state.rewritten(step)
        if pools:
            step = ask_behind_updates(state.view, self._found, keeps, scope, bounded)
            state = state.rewritten(step)
        changes = (_CHANGE, _POOLED) if pools else (_CHANGE,)
        return Written(state, replaced, changes, followers, keeps, tuple(again))

    def _may_pool(self) -> bool:
        """Whether servers may pool bags for any of these lookups: some have several ids.

        Others that read the same tables must then be able to ask in main, too. Where only some
        tables are bounded, rows of the others run ahead and are sampled.
        """
        if not self.asked.options.exact:
            return False
        layouts = [self.view.nodes[each.prepare].attr["layouts"].list.s for each in self._found]
        return any(layout != b"dense" for of_lookup in layouts for layout in of_lookup)

    def _require_answers(self, variable: str, device: str) -> None:
        """Refuses a table of which some update does not tell the worker what it wrote."""
        view = self.view
        writes = self.require_fused_writers(variable, "a dynamic table on a server")
        for update in writes.updates:
            raise refuse_writer(update, "an update that its server computes")
        for update in writes.packed:
            pack = pack_of(view, update)
            answers = view.nodes[update].attr["num_answers"].i
            own = view.op(pack) == GROUP_PACK and task_of(view.device(pack)) == task_of(device)
            if not own or not answers:
                raise refuse_writer(update, "an update that '{}' sends".format(pack))
