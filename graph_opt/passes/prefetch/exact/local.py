"""Lookups of tables of this process that run ahead, with the rows that a step would have read.

    prefetch   ids -> RowLogPosition -^> lookup ─> pooled rows, position
    main       pooled rows, position, ids ─> Refresh(tables) -> layers
               update -> log: the rows that it wrote

The lookup remains what it was and moves like any other. Of what it returns, main pools those bags
again of which an update has since written a row, to the same bits; the others stay in the memory
that the take returned. Whether a row was written is looked up in a log that updates keep for as
many steps as a batch may wait (ops_src/lookup/row_log.h). A position is taken before rows are read,
and an update logs after it has written: one that the read overlaps counts as later.

RowLogPosition returns -1 for what is read again in any case: variables of a server, should a graph
without devices run there, since others may write them; and tables whose bags were mostly pooled
again lately (ops_src/lookup/ahead_choice.h), which the lookup of the same step leaves out.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import attributes_of
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import inputs_by_name
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact.exact_tables import ROW_LOG, log_entry, refuse_place
from graph_opt.passes.prefetch.exact.kind import Asked, ExactKind, Written
from graph_opt.passes.prefetch.exact.refresh_counts import add_refresh_counts
from graph_opt.passes.tasks import runs_on_cpu
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.match.table import count_tables, find_read

_CHANGE = "{} with exact rows: what updates wrote since is read again"


class ExactLocal(ExactKind):
    """See `ExactKind`: tables that the process itself has, on its CPU."""

    def __init__(self, view: GraphView, asked: Asked) -> None:
        super().__init__(view, asked)
        self._tables: Dict[str, Tuple[str, ...]] = {}

    def take(self, lookup: Lookup) -> None:
        """See `ExactKind`."""
        view, name, first = self.view, lookup.output.node, lookup.tables[0].name
        device = view.device(name)
        self.require_own(first)
        if tf.DeviceSpec.from_string(device).job not in (None, "localhost"):
            raise refuse_place(first, device)
        if not runs_on_cpu(device):
            raise refuse_place(first, "tables on a GPU")
        reads = [find_read(view, each) for each in view.inputs(name)[: count_tables(view, name)]]
        names = [read.variable for read in reads if read is not None]
        tables = tuple(name for name in names if name in self.asked.bounded)
        for table in tables:
            self.require_fused_writers(table, "a dynamic table")
        self.require_in_steps(name, first)
        self._tables[name] = tables

    @property
    def lookups(self) -> Sequence[str]:
        """See `ExactKind`."""
        return list(self._tables)

    def write(self, state: PassState) -> Written:
        """See `ExactKind`."""
        nodes: List[Any] = []
        edits = Edits(state.view)
        replaced: Dict[str, str] = {}
        for name in self._tables:
            nodes += _refresh(state.view, name, self.asked, edits, replaced)
        tables = [table for of_lookup in self._tables.values() for table in of_lookup]
        followers = dict.fromkeys(tables, ROW_LOG)
        return Written(state.rewritten(edits.rewrite(nodes)), replaced, (_CHANGE,), followers)


def _refresh(
    view: GraphView, name: str, asked: Asked, edits: Edits, replaced: Dict[str, str]
) -> List[Any]:
    """What refreshes the results of one op, for all that read them."""
    node, device = view.nodes[name], view.device(name)
    inputs = inputs_by_name(view, name)
    shards = [find_read(view, tensor) for tensor in inputs["tables"]]
    names = [read.variable if read is not None else "" for read in shards]
    bounded = asked.bounded
    logs = [log_entry(view, each) if each in bounded else "" for each in names]
    outputs = [TensorRef(name, i) for i in range(len(view.dtypes(name) or ()))]
    writer = NodeWriter(view, "{}/{}".format(asked.scope, name), device)
    where = {"_class": node.attr["_class"]} if "_class" in node.attr else {}
    position = writer.call(
        "position",
        "RowLogPosition",
        batch=list(view.inputs(name)[len(shards) :]),
        row_logs=logs,
        table_shards=node.attr["table_shards"],
        ahead_choice=name,
        **where,
    )
    op = node.op.replace("Lookup", "Refresh")
    refresh = writer.call(
        "pooled",
        op,
        read=outputs,
        log_position=position.result,
        row_logs=logs,
        may_miss=[bounded.get(each, 0) for each in names],
        **inputs,
        **add_refresh_counts(writer, node, names, bounded, **where),
        **{**attributes_of(op, node), "ahead_choice": name},
        **where,
    )
    edits.set(name, "ahead_choice", name)
    edits.wait(name, position.name)
    edits.replace_waits(name, refresh.name)
    for output, fresh in zip(outputs, refresh.outputs("pooled")):
        replaced[str(output)] = str(fresh.ref)
        edits.replace(output, fresh)
    return writer.nodes
