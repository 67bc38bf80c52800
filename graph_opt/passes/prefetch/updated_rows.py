"""Has steps note which rows their updates write, as far as this process knows.

    update on this device      update -^> LogUpdatedRows(its ids) -^> what waited for the update
    packed, to a server        ids -> LogUpdatedRows -^> GroupEmbeddingPackGradients ══► server
    TensorFlow's, on a server  indices -> LogUpdatedRows ══► what the server does with them

An update of this device counts once it has written, and one of a server when it is sent: a request
that is sent later comes later.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Call
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.prefetch.exact.exact_tables import table_writes
from graph_opt.passes.tasks import on_cpu
from graph_opt.rules.op_names import GROUP_PACK, PACKED_UPDATES
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, sparse_updates

_ALL_OF_TABLE = -1
NO_UPDATE = "nothing updates it"


class _Ids(NamedTuple):
    """What one input of a LogUpdatedRows is: the ids, their table, and the shard or -1."""

    tensor: TensorRef
    table: str
    shard: int


class UpdatedRows:
    """Collects the nodes that note updates.

    Args:
      view: The graph.
      scope: Name scope of the nodes.
      device: That of the prefetched batches, on whose task updates are noted.
      kept: How many updates of a table are kept.
      edits: Collects what is moved.
    """

    def __init__(self, view: GraphView, scope: str, device: str, kept: int, edits: Edits) -> None:
        self._view = view
        self._device = device
        self._kept = kept
        self._writer = NodeWriter(view, scope, device)
        self._edits = edits
        self._ids: Dict[str, List[_Ids]] = {}

    def note(self, tables: Iterable[Sequence[str]]) -> Dict[str, str]:
        """Has the updates of these tables noted, each a sequence of shards.

        Returns:
          For the first shard of each table of which they cannot be: the reason.
        """
        refused: Dict[str, str] = {}
        for shards in tables:
            noted: Dict[str, List[_Ids]] = {}
            remote: Dict[str, SparseUpdate] = {}
            try:
                for number, shard in enumerate(shards):
                    self._find(shards[0], number, shard, noted, remote)
                for update in remote.values():
                    _require_here(self._view, update, self._device)
            except Refusal as refusal:
                refused[shards[0]] = "{}: {}".format(refusal.node, refusal.saw)
                continue
            if not noted and not remote:
                refused[shards[0]] = NO_UPDATE
            for end, ids in noted.items():
                self._ids.setdefault(end, []).extend(dict.fromkeys(ids))
            for number, shard in enumerate(shards):
                if shard in remote:
                    self._send(shards[0], number, remote[shard])
        return refused

    def write(self) -> List[Any]:
        """Writes all nodes."""
        together: Dict[Tuple[Tuple[str, ...], str], List[str]] = {}
        for end in self._ids:
            if self._view.op(end) == GROUP_PACK:
                self._note_sent(end)
                continue
            before = tuple(sorted(self._view.control_uses(end)))
            together.setdefault((before, self._view.device(end)), []).append(end)
        for number, ((before, device), ends) in enumerate(together.items()):
            ids = [one for end in ends for one in self._ids[end]]
            log = self._log("updates_{}".format(number), ids, device, ends)
            for name in before:
                self._edits.wait(name, log.name)
        return self._writer.nodes

    def _find(
        self,
        table: str,
        number: int,
        shard: str,
        noted: Dict[str, List[_Ids]],
        remote: Dict[str, SparseUpdate],
    ) -> None:
        view = self._view
        writes = table_writes(view, shard)
        if len(writes.updates) + len(writes.packed) > 1:
            raise _unknown(shard, "several updates")
        for update in writes.updates:
            noted.setdefault(update, []).extend(self._ids_of_group(update, table, shard))
        for update in writes.packed:
            pack = self._packer_of(update)
            noted.setdefault(pack, []).extend(self._ids_of_pack(pack, update, table, shard))
        if writes.updates or writes.packed:
            return
        found = sparse_updates(view, [shard])
        if shard in found.refusals:
            raise found.refusals[shard]
        if shard not in found.found:
            return
        self._of_tensorflow(table, number, found.found[shard], noted, remote)

    def _of_tensorflow(
        self,
        table: str,
        number: int,
        update: SparseUpdate,
        noted: Dict[str, List[_Ids]],
        remote: Dict[str, SparseUpdate],
    ) -> None:
        if update.branches:
            raise _unknown(update.end, "an update in a tf.cond")
        if update.moves_every_row:
            raise _unknown(update.end, "an update of every row")
        if self._is_here(update.end):
            ids = [_Ids(part.indices, table, number) for part in update.parts]
            noted.setdefault(update.end, []).extend(ids)
        else:
            remote[update.table] = update

    def _is_here(self, name: str) -> bool:
        return on_cpu(self._view.device(name)) == on_cpu(self._device)

    def _packer_of(self, update: str) -> str:
        """The node that packs what is sent to a server's update."""
        pack = self._view.through_identity(self._view.inputs(update)[-1]).node
        if self._view.op(pack) != GROUP_PACK:
            raise _unknown(update, "op " + self._view.op(pack))
        return pack

    def _ids_of_group(self, update: str, table: str, shard: str) -> List[_Ids]:
        """The ids of a fused update on this device."""
        attributes = self._view.nodes[update].attr
        first = sum(attributes[key].i for key in ("num_shards", "num_slots"))
        first += attributes["num_hyperparameters"].i
        reads = [tensor.node for tensor in self._view.inputs(update)[: attributes["num_shards"].i]]
        return self._ids_of(update, first, reads, table, shard)

    def _ids_of_pack(self, pack: str, update: str, table: str, shard: str) -> List[_Ids]:
        """The ids of a packed update, whose shards its servers have, each its own in order."""
        view = self._view
        servers = list(view.nodes[pack].attr["shard_servers"].list.i)
        shards = [""] * len(servers)
        for use in (use for _, use in view.node_uses(pack)):
            if view.op(use.consumer) not in PACKED_UPDATES:
                continue
            server = view.inputs(use.consumer)[-1].index
            own = [place for place, number in enumerate(servers) if number == server]
            for place, tensor in zip(own, view.inputs(use.consumer)):
                shards[place] = tensor.node
        if shard not in shards:
            raise _unknown(update, "tables in another order")
        return self._ids_of(pack, 0, shards, table, shard)

    def _ids_of(
        self, node: str, first: int, shards: Sequence[str], table: str, shard: str
    ) -> List[_Ids]:
        attributes = self._view.nodes[node].attr
        counts = list(attributes["table_shards"].list.i)
        ends = [sum(counts[: number + 1]) for number in range(len(counts))]
        place = next((i for i, name in enumerate(shards) if self._reads(name, shard)), -1)
        wanted = next((number for number, end in enumerate(ends) if place < end), -1)
        if place < 0:
            raise _unknown(node, "tables that it reads in another way")
        tensors = self._view.inputs(node)[first:]
        return [
            _Ids(tensors[lookup], table, _ALL_OF_TABLE)
            for lookup, number in enumerate(attributes["lookup_tables"].list.i)
            if number == wanted
        ]

    def _reads(self, name: str, variable: str) -> bool:
        while name != variable and self._view.op(name) in ("Identity", "RefIdentity"):
            name = self._view.inputs(name)[0].node
        return name == variable

    def _note_sent(self, pack: str) -> None:
        """Notes an update once all is there that is packed for a server."""
        view, ids = self._view, self._ids[pack]
        known = {one.tensor for one in ids}
        others = [tensor.node for tensor in view.inputs(pack) if tensor not in known]
        log = self._log("sent/" + pack, ids, view.device(pack), others)
        self._edits.wait(pack, log.name)

    def _send(self, table: str, number: int, update: SparseUpdate) -> None:
        """Notes an update of a server when its indices are sent."""
        view = self._view
        ids = [_Ids(part.indices, table, number) for part in update.parts]
        values_here = [part.values.node for part in update.parts if self._is_here(part.values.node)]
        log = self._log("sent/" + update.table, ids, self._device, values_here)
        for part, sent in zip(update.parts, log.outputs("same_ids")):
            uses = view.uses(part.indices)
            self._edits.move((use for use in uses if use.consumer in update.nodes), sent)

    def _log(self, suffix: str, ids: Sequence[_Ids], device: str, behind: Iterable[str]) -> Call:
        return self._writer.call(
            suffix,
            "LogUpdatedRows",
            device,
            waits_for=list(dict.fromkeys(behind)),
            ids=[one.tensor for one in ids],
            tables=[one.table for one in ids],
            shards=[one.shard for one in ids],
            kept=self._kept,
        )


def _require_here(view: GraphView, update: SparseUpdate, device: str) -> None:
    """Refuses an update of a server whose indices this process does not send."""
    for part in update.parts:
        sent = any(use.consumer in update.nodes for use in view.uses(part.indices))
        if not sent or on_cpu(view.device(part.indices.node)) != on_cpu(device):
            raise _unknown(part.indices.node, "indices that the server makes")


def _unknown(node: str, saw: str) -> Refusal:
    return Refusal("update_not_recognised", at=node, need="rows that are noted", saw=saw)
