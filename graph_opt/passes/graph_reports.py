"""Reports on graphs that are not rewritten: nothing was asked for, or they already have been."""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

from graph_opt.compat import tf
from graph_opt.compat.variable_ops import UPDATES, VariableUse, is_use
from graph_opt.config.options import SWITCHES, SessionOptions
from graph_opt.graph.shared_views import asked_once, view_of
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.library import register_ops
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.ops.stage_spec import KIND_IO, KIND_PREFETCH, has_spec, spec_of
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.fusion.group_nodes import FUSED
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_PUT, BUFFER_TAKE, stage_puts
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.fetch_guard import is_guard
from graph_opt.passes.report_entries import lookup_outcome, stage_report
from graph_opt.passes.table_kinds import FUSED_LOOKUPS, FUSED_UPDATES
from graph_opt.reporting.outcomes import (
    DEFERRED_PART,
    FUSED_PART,
    NO_PART,
    STOCK_PART,
    FusedLookup,
    LookupOutcome,
    ServedTable,
    StageReport,
)
from graph_opt.reporting.report import Report
from graph_opt.rules import find_lookups
from graph_opt.rules.looked_up_tables import FILE, GRAPH, VARIABLE, LookedUpShard, looked_up_shards
from graph_opt.rules.lookup import Lookup, name_of_combiner
from graph_opt.rules.op_names import GROUP_LOOKUPS, VARIABLES

_GRADIENTS = ("GroupEmbeddingGrad",)
FUSED_OPS = frozenset((*FUSED_LOOKUPS, *_GRADIENTS, *FUSED_UPDATES))
"""The ops that do the work of several lookups, gradients or updates."""
_SOURCES = {VARIABLE: "variables/", FILE: "table files", GRAPH: "the graph"}
_KEPT = "{} nodes are kept for their names: others do their work"
_NOTHING_ASKED = "neither {} is set".format(" nor ".join(SWITCHES))


def is_rewritten(graph_def: Any) -> bool:
    """Whether the passes have moved or fused lookups of this graph."""
    return any(map(_is_of_rewrite, graph_def.node))


def _is_of_rewrite(node: Any) -> bool:
    return FUSED in node.attr if node.op in FUSED_LOOKUPS else _is_prefetch(node)


def _is_prefetch(node: Any) -> bool:
    return node.op == BUFFER_PUT and has_spec(node) and spec_of(node).is_prefetch


def report_of_lookups(graph_def: Any, options: SessionOptions) -> Report:
    """Reports every lookup of a graph when no option asks for anything to be done to them."""
    started = time.perf_counter()
    register_ops()
    search = find_lookups(PassState.of(graph_def).view)
    return Report(
        lookups=tuple(lookup_outcome(lookup) for lookup in search.lookups),
        refusals=tuple(refusal.to_dict() for refusal in search.refusals),
        left_alone=(_NOTHING_ASKED,) if search.lookups else (),
        warnings=options.warnings,
        seconds=time.perf_counter() - started,
    )


def report_of_rewritten(graph_def: Any) -> Report:
    """Reports what a rewritten graph consists of: stages, fused ops, regions and other lookups.

    The graph's nodes contain everything that is needed. Fused lookups have lost their names, and
    are named after their op and their number in it.
    """
    started = time.perf_counter()
    register_ops()
    view = view_of(graph_def)
    search = find_lookups(view)
    idle = _idle(view, search.lookups)
    stages = [_stage(view, put) for put in stage_puts(view, KIND_PREFETCH)]
    lookups = [lookup for lookup in search.lookups if lookup.output.node not in idle]
    if not stages:
        lookups = [one for one in lookups if view.attribute(one.output.node, FUSED) is None]
    report = Report(
        lookups=tuple(_placed(lookup, stages) for lookup in lookups),
        refusals=tuple(refusal.to_dict() for refusal in search.refusals),
        stages=tuple(stage.report for stage in stages),
        warnings=(_KEPT.format(len(idle)),) if idle else (),
        fused_lookups=tuple(_fused(view, idle)),
        served=() if stages or view.of_op(*FUSED_UPDATES) else tuple(_served(view)),
    )
    report = with_region_counts(report, _regions(view, idle, stages))
    return dataclasses.replace(report, seconds=time.perf_counter() - started)


@asked_once
def node_regions(view: GraphView) -> Dict[str, str]:
    """The region of each node of a graph, rewritten or not.

    Returns:
      `io`, `prefetch` or `main` for nodes that run for a batch, read or fed; `idle` for nodes that
      are kept for their names while others do their work; `none` for all that no batch reaches,
      such as variables, their initializers and what saves them.
    """
    register_ops()
    rewritten = any(map(_is_of_rewrite, view.nodes.values()))
    idle = _idle(view, find_lookups(view).lookups) if rewritten else set()
    puts = stage_puts(view, KIND_PREFETCH) if rewritten else []
    return _regions(view, idle, [_stage(view, put) for put in puts])


def _regions(view: GraphView, idle: Set[str], stages: Sequence[_Stage]) -> Dict[str, str]:
    io = _io_nodes(view, idle)
    prefetch = {name for stage in stages for name in stage.nodes}
    fed = view.descendants([*view.of_op(BUFFER_TAKE, *BATCH_SOURCES), *batch_placeholders(view)])
    regions = {name: "main" if name in fed else "none" for name in view.nodes}
    for region, names in (("idle", idle), ("io", io), ("prefetch", prefetch)):
        regions.update((name, region) for name in names)
    return regions


def with_region_counts(report: Report, regions: Mapping[str, str]) -> Report:
    """The report with the number of nodes in each region of the graph that users are shown.

    Args:
      report: What passes found; they count regions of the graph that they were given.
      regions: The region of each node, as `node_regions` gives them.
    """
    counts = collections.Counter(regions.values())
    names = ("io", "prefetch", "main", *sorted(counts.keys() & {"none", "idle"}, reverse=True))
    return dataclasses.replace(report, regions={name: counts[name] for name in names})


def with_regions_of(report: Report, graph_def: Any) -> Report:
    """The report with the number of nodes in each region of this graph."""
    return with_region_counts(report, node_regions(view_of(graph_def)))


def batch_placeholders(view: GraphView) -> List[str]:
    """The placeholders that may be fed with batches: neither those of stages nor file names."""
    scopes = tuple(put.rpartition("/")[0] + "/" for put in stage_puts(view))
    return [
        name
        for name in view.of_op("Placeholder", "PlaceholderWithDefault")
        if not name.startswith(scopes) and not _is_file_name(view, name)
    ]


def _is_file_name(view: GraphView, placeholder: str) -> bool:
    tensor = TensorRef(placeholder, 0)
    return view.dtype(tensor) == tf.string.as_datatype_enum and view.shape(tensor) == ()


class _Stage(NamedTuple):
    report: StageReport
    nodes: FrozenSet[str]


def _idle(view: GraphView, lookups: Tuple[Lookup, ...]) -> Set[str]:
    """Nodes that exist only for their names: clones or fused ops do their work."""
    guards = [name for name in view.of_op("Assert") if is_guard("Assert", name)]
    idle = set(view.descendants(guards))
    updated = _tables_updated(view)
    fused = [one for one in lookups if view.attribute(one.output.node, FUSED) is not None]
    read = {table.name for lookup in fused for table in lookup.tables}
    replaced = {
        reader
        for table in updated
        for reader in view.readers(table)
        if _is_update(view.op(reader)) and view.attribute(reader, FUSED) is None
    }
    replaced -= set(view.of_op(*FUSED_UPDATES))
    replaced |= {
        lookup.output.node
        for lookup in lookups
        if any(table.name in read for table in lookup.tables)
        and view.attribute(lookup.output.node, FUSED) is None
    }
    return idle | dead_nodes(view, replaced)


def _is_update(op: str) -> bool:
    return is_use(op, UPDATES - {VariableUse.ADDS})


def _tables_updated(view: GraphView, wanted: Callable[[str], bool] = lambda name: True) -> Set[str]:
    """Names of the variables that fused updates write, or those that are wanted."""
    updated: Set[str] = set()
    for name in view.of_op(*FUSED_UPDATES):
        if not wanted(name):
            continue
        shards = view.attribute(name, "num_shards")
        first = view.inputs(name)[: shards.i if shards is not None else 0]
        updated.update(tensor.node for tensor in first if view.op(tensor.node) in VARIABLES)
    return updated


def _is_moved_late(view: GraphView, update: str) -> bool:
    """Whether an update leaves rows for later that it would move."""
    optimizer = view.attribute(update, "optimizer")
    moves = optimizer is not None and optimizer_specs()[optimizer.s.decode()].moves_every_row
    return moves and bool(_texts(view, update, "row_states"))


def _is_set(view: GraphView, name: str, key: str) -> bool:
    value = view.attribute(name, key)
    return value is not None and bool(value.b)


def _texts(view: GraphView, name: str, key: str) -> List[str]:
    value = view.attribute(name, key)
    return [] if value is None else [text.decode("utf-8", "replace") for text in value.list.s]


def _numbers(view: GraphView, name: str, key: str) -> List[int]:
    value = view.attribute(name, key)
    return [] if value is None else list(value.list.i)


def _fused(view: GraphView, idle: Set[str]) -> Iterator[FusedLookup]:
    updated = _tables_updated(view) | _named_by(view, FUSED_UPDATES)
    deferred = _tables_updated(view, lambda name: _is_moved_late(view, name))
    averaged = _tables_updated(view, lambda name: _is_set(view, name, "averaged"))
    trained = _named_by(view, _GRADIENTS)
    for name in view.of_op(*FUSED_LOOKUPS):
        if view.attribute(name, FUSED) is None or name in idle:
            continue
        tables = _texts(view, name, "table_names")
        combiners = _texts(view, name, "combiners")
        joined = view.attribute(name, "columns_width")
        for number, table in enumerate(_numbers(view, name, "lookup_tables")):
            is_updated = _is_among(tables[table], updated)
            is_trained = is_updated or _is_among(tables[table], trained)
            yield FusedLookup(
                name="{}[{}]".format(name, number),
                api="fused",
                tables=(tables[table],),
                combiner=name_of_combiner(combiners[number]),
                output="{}:{}".format(name, 0 if joined is not None and joined.i else number),
                group=name,
                gradient=FUSED_PART if is_trained else NO_PART,
                update=_update_part(is_trained, is_updated, _is_among(tables[table], deferred)),
                average=DEFERRED_PART if _is_among(tables[table], averaged) else NO_PART,
            )


def _served(view: GraphView) -> Iterator[ServedTable]:
    """The tables of fused lookups, each once."""
    found: Dict[str, ServedTable] = {}
    for name in view.of_op(*sorted(GROUP_LOOKUPS)):
        lookups = collections.Counter(_numbers(view, name, "lookup_tables"))
        tables = zip(_texts(view, name, "table_names"), looked_up_shards(view, name))
        for number, (table, shards) in enumerate(tables):
            if table in found:
                count = found[table].lookups + lookups[number]
                found[table] = dataclasses.replace(found[table], lookups=count)
            elif shards:
                found[table] = _served_table(table, shards, lookups[number])
    yield from found.values()


def _served_table(name: str, shards: Sequence[LookedUpShard], lookups: int) -> ServedTable:
    first = shards[0]
    counts = [shard.rows for shard in shards]
    rows = None if None in counts else sum(count or 0 for count in counts)
    return ServedTable(
        name,
        rows,
        first.width,
        tf.as_dtype(first.dtype).name,
        None if rows is None or first.row_bytes is None else rows * first.row_bytes,
        _SOURCES[first.source],
        lookups,
    )


def _update_part(is_trained: bool, is_updated: bool, is_deferred: bool) -> str:
    if is_deferred:
        return DEFERRED_PART
    if is_updated:
        return FUSED_PART
    return STOCK_PART if is_trained else NO_PART


def _is_among(table: str, names: Set[str]) -> bool:
    """Whether a table, partitioned or not, is one of those named."""
    return table in names or any(name.startswith(table + "/part_") for name in names)


def _named_by(view: GraphView, ops: Tuple[str, ...]) -> Set[str]:
    return {table for name in view.of_op(*ops) for table in _texts(view, name, "table_names")}


def _io_nodes(view: GraphView, idle: Set[str]) -> Set[str]:
    puts = stage_puts(view, KIND_IO)
    sources = [name for name in view.of_op(*BATCH_SOURCES) if name not in idle]
    return set(view.ancestors(puts)) | set(view.ancestors(sources)) - idle


def _stage(view: GraphView, put: str) -> _Stage:
    spec = spec_of(view.nodes[put])
    scope = put.rpartition("/")[0] + "/"
    inside = frozenset(
        node for node in view.ancestors([put]) if node.startswith(scope) or node == put
    )
    takes = [
        take
        for take in view.of_op(BUFFER_TAKE)
        if view.nodes[take].attr["shared_name"] == view.nodes[put].attr["shared_name"]
    ]
    sources = [node for node in view.ancestors([put]) if view.op(node) == BUFFER_TAKE]
    crossing = view.inputs(put)[: len(view.nodes[put].attr["dtypes"].list.type)]
    report = stage_report(
        view,
        spec,
        {tensor: "{}:{}".format("".join(takes[:1]), i) for i, tensor in enumerate(crossing)},
        io_source=sources[0] if sources else ",".join(spec.upstream),
        inferred=False,
        nodes=inside,
    )
    return _Stage(report, inside)


def _placed(lookup: Lookup, stages: List[_Stage]) -> LookupOutcome:
    names = [stage.report.name for stage in stages if lookup.output.node in stage.nodes]
    return lookup_outcome(lookup, names[0] if names else None)
