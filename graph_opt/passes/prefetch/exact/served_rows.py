"""Lookups of tables on servers that run ahead, with the rows that a step would have read itself.

    prefetch   ids -> Prepare -> StageServedRows ══> Gather ══> rows -> Combine -> pooled rows
    main       TakeServedRows -> as they are, or ══> Gather ══> rows
               rows, pooled rows -> RefreshPacked -> layers -> PackGradients ══> ApplyPacked
               KeepServedRows <════════════════════════════════════ answers ═══════╝

The worker knows what it updates: an update names, beside its gradients, those of its rows that
staged batches were sent before, and its answer has their new values. A batch that is staged while
an update of its rows is under way is not asked for before the answer has come. So no update of this
worker is missed, and there is no further round trip. Once nothing holds a batch any more, because
it was used or dropped, updates do not ask for its rows.

Updates of other workers are seen as by a worker without prefetch at the time of the read. The same
holds for steps that run at once: of two answers with the same row, the later one counts, which has
both updates.

Where it is clearly less to send, servers pool the bags of a lookup and sum their gradients. Then no
worker knows which rows an update writes, nor could it pool bags again. So main itself asks servers
to; what runs ahead are the ids and the making of requests. A step asks for the next one's, behind
its own update (served_batches.py), and only where it could not, the next step asks itself.

Nothing in the step depends on KeepServedRows; otherwise the step counter, for one, would wait for
another round trip. Sessions run it in each step that runs the update. Where an answer does not
come, since its step failed or was another session's, or something else writes a table, batches that
wait are lost. A session reads their rows again before its next step that takes a batch, with one
round trip for each lost batch, and none after a step that ended well:

    between    FindLostRows ══> Gather ══> ReplaceLostRows

If an update is of a session that is not graph_opt's, nobody knows of the loss: main then fails with
an error rather than compute with old rows.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Container,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Sequence,
    Tuple,
)

from graph_opt.compat.op_definitions import attributes_of
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Call, Tensor, inputs_by_name
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.prefetch.exact.exact_tables import (
    LOSE_ROWS,
    ReadAgain,
    log_entry,
    table_writes,
)
from graph_opt.passes.prefetch.exact.refresh_counts import add_refresh_counts
from graph_opt.passes.tasks import task_of
from graph_opt.rules.match.table import describe, find_read
from graph_opt.rules.op_names import STAGE_SERVED, TAKE_SERVED

_REFRESH = "GroupEmbeddingRefreshPacked"
_POOLED = "pooled"
_NEVER = "never"
_TOGETHER = "together"


class ServedLookup(NamedTuple):
    """A fused lookup of tables on servers.

    Attributes:
      combine: The node that returns pooled rows.
      prepare: The one that says what to ask of servers.
      gathers: Those that read rows, in the order of the servers.
      shards: The variables, in the order of the op.
    """

    combine: str
    prepare: str
    gathers: Tuple[str, ...]
    shards: Tuple[str, ...]


def refresh(
    view: GraphView, lookup: ServedLookup, scope: str, bounded: Container[str], pools: bool
) -> Tuple[Rewrite, Dict[str, str]]:
    """Refreshes the result of a lookup in main.

    Args:
      view: The graph.
      lookup: The lookup.
      scope: Where nodes are added.
      bounded: The variables whose rows are refreshed.
      pools: Whether servers pool bags where it is less to send. Then main may have to ask them.

    Returns:
      The rewrite, and what replaces each output of the lookup.
    """
    prepare = Call(view.nodes[lookup.prepare])
    requests, counts = prepare.outputs("requests"), prepare.output("counts")
    count = len(requests)
    writer = NodeWriter(view, "{}/{}".format(scope, lookup.combine), view.device(prepare.name))
    staged = writer.call(
        "staged",
        STAGE_SERVED,
        requests=requests,
        counts=counts,
        **of_lookup(view, lookup, bounded),
    )
    take = writer.call(
        "take",
        TAKE_SERVED,
        staged=staged.output("staged"),
        num_servers=count,
    )
    node = view.nodes[lookup.combine]
    inputs = inputs_by_name(view, lookup.combine)
    if pools:
        inputs["rows"] = _asked_in_main(view, lookup, writer, take)
    outputs = [TensorRef(lookup.combine, i) for i in range(len(view.dtypes(lookup.combine) or ()))]
    counted = add_refresh_counts(writer, node, lookup.shards, bounded)
    fresh = writer.call(
        _POOLED,
        _REFRESH,
        read=outputs,
        taken=take.output("taken"),
        **inputs,
        **counted,
        **attributes_of(_REFRESH, node),
    )
    edits = Edits(view)
    for gather, noted in zip(lookup.gathers, staged.outputs("noted")):
        edits.move_input(gather, len(view.inputs(gather)) - 1, noted)
    place = view.inputs(lookup.combine).index(counts.ref)
    edits.move_input(lookup.combine, place, staged.output("noted_counts"))
    edits.replace_waits(lookup.combine, fresh.name)
    edits.set(lookup.prepare, "pool_on_server", _TOGETHER if pools else _NEVER)
    replaced = {}
    for output, pooled in zip(outputs, fresh.outputs("pooled")):
        replaced[str(output)] = str(pooled.ref)
        edits.replace(output, pooled)
    return edits.rewrite(writer.nodes), replaced


def of_lookup(view: GraphView, lookup: ServedLookup, bounded: Container[str]) -> Dict[str, Any]:
    """Attributes of the nodes that stage batches, lose them, and ask for the next one."""
    return {
        "shard_servers": view.nodes[lookup.prepare].attr["shard_servers"],
        "shards": _followed(view, lookup.shards, bounded),
        "lookup": lookup.combine,
    }


def _asked_in_main(
    view: GraphView, lookup: ServedLookup, writer: NodeWriter, take: Call
) -> List[Tensor]:
    """Asks servers for rows, if TakeServedRows says so, and returns the rows, those or others."""
    asks = take.output("asks")
    vector: Dict[str, Any] = {"output_shapes": [(None,)] * 2}
    rows = []
    for i, (gather, request) in enumerate(zip(lookup.gathers, take.outputs("requests"))):
        ahead = writer.call(
            "ahead_{}".format(i), "Switch", data=TensorRef(gather, 0), pred=asks, **vector
        )
        asked = writer.call("request_{}".format(i), "Switch", data=request, pred=asks, **vector)
        again = gather_again(view, gather, writer, "rows_{}".format(i), asked.output("output_true"))
        merged = writer.call(
            "sent_{}".format(i),
            "Merge",
            inputs=[ahead.output("output_false"), again],
        )
        rows.append(merged.output("output"))
    return rows


def gather_again(
    view: GraphView,
    gather: str,
    writer: NodeWriter,
    suffix: str,
    request: Tensor,
    behind: Sequence[str] = (),
) -> Tensor:
    """Reads what another request asks of the same server, behind some nodes."""
    node = view.nodes[gather]
    return writer.call(
        suffix,
        node.op,
        view.device(gather),
        waits_for=behind,
        **{**inputs_by_name(view, gather), "request": request},
        **attributes_of(node.op, node),
    ).result


def read_again(
    view: GraphView, lookup: ServedLookup, scope: str, bounded: Container[str]
) -> Tuple[Rewrite, ReadAgain]:
    """Adds what reads the rows of lost batches again, for sessions to run between steps.

    Args:
      view: The graph, before `refresh`.
      lookup: The lookup.
      scope: Where nodes are added.
      bounded: As `refresh` is given them.
    """
    count, name = len(lookup.gathers), "{}/{}".format(scope, lookup.combine)
    worker = NodeWriter(view, name, view.device(lookup.prepare))
    lose = worker.call("lose", LOSE_ROWS)
    shared = of_lookup(view, lookup, bounded)
    find = worker.call(
        "lost",
        "FindLostRows",
        num_servers=count,
        **shared,
    )
    rows = [
        gather_again(view, gather, worker, "gather_{}".format(i), request)
        for i, (gather, request) in enumerate(zip(lookup.gathers, find.outputs("requests")))
    ]
    replace = worker.call(
        "replace",
        "ReplaceLostRows",
        rows=rows,
        lost=find.output("lost"),
        shard_servers=shared["shard_servers"],
        shard_widths=[_width(view, shard) for shard in lookup.shards],
    )
    pooled = "{}/{}".format(name, _POOLED)
    again = ReadAgain(lose.name, str(find.output("loss").ref), replace.name, pooled)
    return Rewrite(tuple(worker.nodes)), again


def keep_answers(
    view: GraphView, variables: AbstractSet[str], scope: str
) -> Tuple[Rewrite, Dict[str, str]]:
    """Has updates of these tables ask for new rows, and the worker keep them for staged batches.

    Returns:
      The rewrite, and for each update the node that a step which runs it must run, too.
    """
    updates = {name: None for v in sorted(variables) for name in table_writes(view, v).packed}
    packs = dict.fromkeys(pack_of(view, update) for update in updates)
    nodes: List[Any] = []
    edits = Edits(view)
    keeps: Dict[str, str] = {}
    for pack in packs:
        device = view.device(pack)
        servers = list(view.nodes[pack].attr["shard_servers"].list.i)
        count = view.nodes[pack].attr["num_servers"].i
        applies = [view.uses(TensorRef(pack, i))[0].consumer for i in range(count)]
        tables = [view.nodes[apply].attr["num_shards"].i for apply in applies]
        by_server = [
            variables_of(view, view.inputs(apply)[:number])
            for apply, number in zip(applies, tables)
        ]
        shards = in_order(servers, by_server)
        keep = NodeWriter(view, "{}/{}".format(scope, pack), device).call(
            "keep",
            "KeepServedRows",
            answers=[TensorRef(apply, 0) for apply in applies],
            under_way=Call(view.nodes[pack]).output("under_way"),
            shard_servers=servers,
            shard_widths=[_width(view, shard) for shard in shards],
        )
        nodes.append(keep.node)
        edits.set(pack, "served_shards", _followed(view, shards, variables))
        if not view.nodes[pack].attr["num_requests"].i:
            # Else gradients go as the lookup did. By itself it might choose bags where the lookup
            # has chosen rows, of which then none would be current in the next step.
            edits.set(pack, "pool_on_server", _NEVER)
        keeps.update((apply, keep.name) for apply in applies)
    return edits.rewrite(nodes), keeps


def shard_name(view: GraphView, variable: str) -> str:
    """What staged rows of a shard and updates of it are known by: its server and the variable."""
    return "{}/{}".format(task_of(view.device(variable)), log_entry(view, variable))


def _followed(view: GraphView, shards: Iterable[str], bounded: Container[str]) -> List[str]:
    """The names of an op's shards; "" for those whose rows nobody refreshes."""
    return [shard_name(view, one) if one in bounded else "" for one in shards]


def pack_of(view: GraphView, update: str) -> str:
    """The node that makes what a packed update sends."""
    return str(view.inputs(update)[-1].node)


def variables_of(view: GraphView, tensors: Any) -> Tuple[str, ...]:
    """The variables that these tensors read."""
    reads = [find_read(view, tensor) for tensor in tensors]
    return tuple(read.variable for read in reads if read is not None)


def _width(view: GraphView, variable: str) -> int:
    shape = describe(view, variable).shape
    assert shape is not None and shape[1] is not None, variable
    return shape[1]


def in_order(servers: List[int], by_server: List[Tuple[str, ...]]) -> Tuple[str, ...]:
    """The shards of an op, merged from those of each server, which are in the op's order."""
    left = [iter(shards) for shards in by_server]
    return tuple(next(left[server]) for server in servers)
