"""Lookups of tables sharded across ranks that run ahead, with the rows that a step would have read.

    prefetch   requests ══> RowLogPosition -^> ExchangeGather ══> rows -> Combine -> pooled rows
    main       requests, position -> ExchangeChangedRows ══> Refresh(rows, pooled rows) -> layers

An owner keeps a log of the rows that its updates write, and has the requests of the batch that a
step takes. It sends each rank those of the rows that have changed since it sent them: one more
message in main, which all ranks send in every step that uses the lookup, whatever has changed.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from graph_opt.compat.op_definitions import attributes_of
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Call, Tensor, attribute_value, inputs_by_name
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.message_names import CHANGED_SUFFIX, IDS_SUFFIX
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact.exact_tables import (
    ROW_LOG,
    log_entry,
    refuse_place,
    table_writes,
)
from graph_opt.passes.prefetch.exact.kind import Asked, ExactKind, Written
from graph_opt.passes.prefetch.exact.refresh_counts import add_refresh_counts
from graph_opt.passes.prefetch.regions import sources_behind
from graph_opt.passes.tasks import runs_on_cpu
from graph_opt.rules.exchanges import Exchange, exchanges_of
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.match.table import find_read
from graph_opt.rules.op_names import EXCHANGE_WEIGHTS_GRAD, GROUP_PREPARE

_REFRESH = "ExchangeRefresh"
_CHANGED = {
    "ExchangeGather": "ExchangeChangedRows",
    "ResourceExchangeGather": "ResourceExchangeChangedRows",
}
_CHANGE = "{} with exact rows of other ranks, which send what their updates wrote since"
_MESSAGE = "message"  # the attribute with the name of a message


class ExchangedLookup(NamedTuple):
    """An exchange that may run ahead.

    Attributes:
      exchange: Its messages, and what is between them.
      prepare: The node that says what to ask of ranks.
      variables: This rank's part of each table, as `ExchangeGather` takes them.
    """

    exchange: Exchange
    prepare: str
    variables: Tuple[str, ...]


class ExactOnRanks(ExactKind):
    """See `ExactKind`: sharded tables."""

    def __init__(self, view: GraphView, asked: Asked) -> None:
        super().__init__(view, asked)
        self._found: List[ExchangedLookup] = []

    def take(self, lookup: Lookup) -> None:
        """See `ExactKind`."""
        self.require_own(lookup.tables[0].name)
        exchanged = self._described(lookup)
        self._require_one_input(exchanged)
        self._found.append(exchanged)

    @property
    def lookups(self) -> Sequence[str]:
        """See `ExactKind`."""
        return [each.exchange.combine for each in self._found]

    def write(self, state: PassState) -> Written:
        """See `ExactKind`."""
        replaced: Dict[str, str] = {}
        for lookup in self._found:
            step, fresh = _refresh(state.view, lookup, self.asked)
            state = state.rewritten(step)
            replaced.update(fresh)
        followers = {
            variable: ROW_LOG
            for lookup in self._found
            for variable in lookup.variables
            if variable in self.asked.bounded
        }
        return Written(state, replaced, (_CHANGE,), followers)

    def _described(self, lookup: Lookup) -> ExchangedLookup:
        """The exchange that makes a lookup; refuses one that names no rows, or a table as such."""
        view = self.view
        found = exchanges_of(view, [lookup])
        table = lookup.tables[0].name
        if not found:
            raise refuse_place(table, "tables sharded across ranks by ops that are not graph_opt's")
        exchange = found[0]
        gather, combine = exchange.gather, exchange.combine
        (inverse,) = inputs_by_name(view, combine)["inverse"]
        prepare = view.through_identity(inverse).node
        if view.op(prepare) != GROUP_PREPARE or view.op(gather) not in _CHANGED:
            raise refuse_place(table, "rows that no request of a batch names")
        self.require_in_steps(gather, table)
        if not (runs_on_cpu(view.device(gather)) and runs_on_cpu(view.device(combine))):
            raise refuse_place(table, "tables on a GPU")
        reads = [find_read(view, each) for each in inputs_by_name(view, gather)["tables"]]
        variables = tuple(read.variable for read in reads if read is not None)
        for variable in (each for each in variables if each in self.asked.bounded):
            self.require_fused_writers(variable, "a dynamic table")
        return ExchangedLookup(exchange, prepare, variables)

    def _require_one_input(self, exchanged: ExchangedLookup) -> None:
        """Where another input ends first on one rank, the others wait for its changed rows.

        So nothing but the batch may decide whether a rank sends them.
        """
        writes = [table_writes(self.view, each) for each in exchanged.variables]
        updates = [name for one in writes for name in one.updates]
        nodes = [exchanged.exchange.combine, *updates]
        sources = sources_behind(self.view, nodes, self.asked.options)
        if len(sources) > 1:
            raise Refusal(
                "exact_several_inputs",
                at=exchanged.exchange.combine,
                need="one input for all of a step, as ranks send each other changed rows (exact)",
                saw=", ".join(sources),
            )


def _refresh(
    view: GraphView, lookup: ExchangedLookup, asked: Asked
) -> Tuple[Rewrite, Dict[str, str]]:
    """Refreshes the result of an exchange in main; the rewrite, and what replaces what."""
    bounded = asked.bounded
    gather, combine = lookup.exchange.gather, lookup.exchange.combine
    node, inputs = view.nodes[combine], inputs_by_name(view, combine)
    outputs = [TensorRef(combine, i) for i in range(len(view.dtypes(combine) or ()))]
    where = "{}/{}".format(asked.scope, combine)
    owner = NodeWriter(view, where, view.device(gather))
    logs = [log_entry(view, each) if each in bounded else "" for each in lookup.variables]
    position = _position(view, lookup, owner, logs)
    may_miss = [bounded.get(each, 0) for each in lookup.variables]
    changed, splits = _message(view, lookup, owner, position, row_logs=logs, may_miss=may_miss)
    writer = NodeWriter(view, where, view.device(combine))
    fresh = writer.call(
        "pooled",
        _REFRESH,
        requests=Call(view.nodes[lookup.prepare]).outputs("requests"),
        changed=changed,
        changed_splits=splits,
        read=outputs,
        **inputs,
        **add_refresh_counts(writer, view.nodes[gather], lookup.variables, bounded),
        **attributes_of(_REFRESH, node),
    )
    replaced = {}
    edits = Edits(view)
    for output, pooled in zip(outputs, fresh.outputs("pooled")):
        replaced[str(output)] = str(pooled.ref)
        edits.replace(output, pooled)
    (rows,) = inputs["rows"]
    training = [use for use in view.uses(rows) if view.op(use.consumer) == EXCHANGE_WEIGHTS_GRAD]
    edits.move(training, fresh.output("fresh_rows"))
    edits.wait(gather, position.ref.node)
    edits.replace_waits(combine, fresh.name)
    edits.set(lookup.prepare, "pool_on_server", "never")
    return edits.rewrite((*owner.nodes, *writer.nodes)), replaced


def _position(
    view: GraphView, lookup: ExchangedLookup, writer: NodeWriter, logs: List[str]
) -> Tensor:
    """Notes, before rows are read, how many updates each part of a table has had."""
    gather = lookup.exchange.gather
    inputs = inputs_by_name(view, gather)
    return writer.call(
        "position",
        "RowLogPosition",
        batch=[*inputs["requests"], *inputs["splits"]],
        row_logs=logs,
        **_place(view, gather),
    ).result


def _message(
    view: GraphView, lookup: ExchangedLookup, writer: NodeWriter, position: Tensor, **missed: Any
) -> Tuple[Tensor, Tensor]:
    """Sends the rows that have changed; what is received, and how much of it from each rank."""
    gather = lookup.exchange.gather
    op = _CHANGED[view.op(gather)]
    inputs = inputs_by_name(view, gather)
    changed = writer.call(
        "changed",
        op,
        log_position=position,
        **inputs,
        **missed,
        **attributes_of(op, view.nodes[gather]),
        **_place(view, gather),
    )
    ids = view.nodes[lookup.exchange.ids]
    attributes = {key: value for key, value in ids.attr.items() if key != "_class"}
    attributes[_MESSAGE] = attribute_value(_renamed(attributes[_MESSAGE].s.decode("utf-8")))
    sent = NodeWriter(view, writer.scope, view.device(ids.name))
    name = _renamed(ids.name.rpartition("/")[2])
    message = [changed.output("changed"), changed.output("changed_splits")]
    node = sent.node(name, ids.op, message, **attributes)
    writer.nodes.extend(sent.nodes)
    received, received_splits = (
        Tensor(TensorRef(node.name, i).input_name, each.dtype) for i, each in enumerate(message)
    )
    return received, received_splits


def _renamed(ids: str) -> str:
    base = ids[: -len(IDS_SUFFIX)] if ids.endswith(IDS_SUFFIX) else ids
    return base + CHANGED_SUFFIX


def _place(view: GraphView, gather: str) -> Dict[str, Any]:
    attributes = view.nodes[gather].attr
    return {"_class": attributes["_class"]} if "_class" in attributes else {}
