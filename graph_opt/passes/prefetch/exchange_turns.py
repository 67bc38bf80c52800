"""Lets the threads of a stage exchange messages with other ranks one at a time, in order.

    N/... everything else ..  ->  Turn -> ids messages -> gathers -> rows messages -> TurnEnd -> ...
    N/exchange/               ->  failure messages -> status

    step k     take, parse, prepare ─┐Turn ids ══► gather rows ══► TurnEnd┌─ combine, put
    step k+1        take, parse, prepare ............................┘Turn ids ══► ...
    step k+2        take fails .................................................... Turn error ══►

Exchanges have turns of their own, in the order of places. So a name is never twice under way on a
rank, and all ranks exchange the same batch.

Each rank sends one message with ids for every batch, or what came in its place. So whatever may
fail on one rank alone runs before its ids are sent, and the messages of several exchanges wait for
each other: a rank that gets an error in place of ids sends nothing more of that batch.
"""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterator, List, Sequence, Set, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops import stage_nodes
from graph_opt.ops.stage_spec import StageSpec, exchange_mark
from graph_opt.passes.io_stages import BUFFER_PUT
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.exchanges import Exchange

# Attributes of messages.
_MESSAGE = "message"
_OF_RANK = ("group", "rank")

_stages: Dict[Tuple[str, ...], Iterator[int]] = {}


def take_exchange_turns(
    view: GraphView, exchanges: Sequence[Exchange], writer: NodeWriter, spec: StageSpec
) -> None:
    """Adds the turns of the cloned exchanges, and what a step without a batch sends.

    Args:
      view: The graph with the originals.
      exchanges: The originals.
      writer: Has the clones, and the put.
      spec: The stage.
    """
    clones = {node.name: node for node in writer.nodes}
    ids, gathers, rows = (
        [clones[writer.name(name)] for name in names]
        for names in zip(*((each.ids, each.gather, each.rows) for each in exchanges))
    )
    put = clones["{}/{}".format(spec.name, BUFFER_PUT)]
    # A batch that one rank alone drops would be missing on that rank only.
    put.attr["timeout_millis"].i = 0
    turn, turn_end, *controls = stage_nodes.exchange_turn_nodes(spec, writer.device)
    turn.input.extend("^" + name for name in _before(ids, put, writer.nodes))
    _wait(ids, [turn])
    if len(exchanges) > 1:
        _wait(gathers, ids)
        _wait(rows, gathers)
    _wait([turn_end], rows)
    readers = [node for node in writer.nodes if _reads(node, {each.name for each in rows})]
    _wait([*readers, put], [turn_end])
    writer.nodes.extend([turn, turn_end, *controls])
    suffix = _suffix(ids[0])
    if suffix:
        _rename_messages([*ids, *rows], suffix, writer.nodes)
    writer.nodes.extend(_failure(view, exchanges[0], ids, writer, spec))


def _suffix(message: Any) -> str:
    """What tells the messages of a stage from those of stages of other graphs, or other inputs.

    All ranks optimize the same graphs in the same order.
    """
    rank = tuple(str(message.attr[key]) for key in _OF_RANK)
    number = next(_stages.setdefault(rank, itertools.count()))
    return "_stage_{}".format(number) if number else ""


def _rename_messages(messages: Sequence[Any], suffix: str, nodes: Sequence[Any]) -> None:
    names = {node.name: node.name + suffix for node in messages}
    for node in nodes:
        for slot, text in enumerate(node.input):
            name, colon, index = text.lstrip("^").partition(":")
            if name in names:
                node.input[slot] = text[: text.find(name)] + names[name] + colon + index
    for node in messages:
        node.name = names[node.name]
        node.attr[_MESSAGE].s += suffix.encode("utf-8")


def _before(ids: Sequence[Any], put: Any, nodes: Sequence[Any]) -> List[str]:
    """All that ids and the put are computed from, as far as it does not depend on a message."""
    after: Set[str] = set()
    found = {node.name for node in ids}
    while len(found) > len(after):
        after = set(found)
        found.update(node.name for node in nodes if not after.isdisjoint(_sources(node)))
    read = [text for node in [*ids, put] for text in node.input if not text.startswith("^")]
    names = dict.fromkeys(TensorRef.parse(text).node for text in read)
    return [name for name in names if name not in after]


def _sources(node: Any) -> List[str]:
    return [TensorRef.parse(text.lstrip("^")).node for text in node.input]


def _wait(nodes: Sequence[Any], others: Sequence[Any]) -> None:
    for node in nodes:
        present = set(node.input)
        own = ["^" + other.name for other in others if other.name != node.name]
        node.input.extend(text for text in own if text not in present)


def _reads(node: Any, names: Set[str]) -> bool:
    return any(
        not text.startswith("^") and TensorRef.parse(text).node in names for text in node.input
    )


def _failure(
    view: GraphView, exchange: Exchange, ids: Sequence[Any], writer: NodeWriter, spec: StageSpec
) -> List[Any]:
    """What sends an error in place of the ids of all exchanges, and returns what ranks agree on."""
    error = NodeWriter(view, stage_nodes.exchange_spec(spec).name, writer.device)
    message = error.call(
        "ExchangeFailure",
        "ExchangeFailure",
        code=spec.name + "/status_code",
        text=spec.name + "/status_message",
        num_ranks=view.nodes[exchange.combine].attr["num_servers"].i,
    )
    sent: List[str] = []
    inputs = [message.output("requests"), message.output("splits")]
    for number, original in enumerate(ids):
        attributes = {key: value for key, value in original.attr.items() if key != "_class"}
        name = "{}/{}".format(number, original.name.rpartition("/")[2])
        sent.append(error.node(name, original.op, inputs, original.device, **attributes).name)
    error.call(
        "ExchangeStatus",
        "ExchangeStatus",
        requests=sent,
        splits=[name + ":1" for name in sent],
        **exchange_mark(spec),
    )
    return error.nodes
