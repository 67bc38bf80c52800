"""A graph that serves, with its lookups fused: from MetaGraphDef to MetaGraphDef.

The variables keep their names, and the same nodes save and restore them, so both graphs of a
SavedModel share their files. What only the old lookups needed is removed, and whatever names the
result of a lookup (a signature, a collection) names that of the fused op.
"""

from __future__ import annotations

import dataclasses
from typing import Any, FrozenSet, List, NamedTuple, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import op_definition
from graph_opt.config.options import SessionOptions
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.inspect.shapes import add_missing_shapes, add_shapes, without_shapes
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.optimize import Planned, plan
from graph_opt.passes.repeated_rows.repeated_rows import repeated_rows
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import counted
from graph_opt.saved_models.called_functions import inline_functions
from graph_opt.saved_models.graphs import FUSED
from graph_opt.saved_models.named_nodes import (
    named_among,
    named_parts,
    node_of,
    predicting_signatures,
    tensors_of_signatures,
)
from graph_opt.serving.repeated_inputs import request_rows
from graph_opt.serving.repeated_requests import note_repeated_inputs
from graph_opt.serving.without_training import leave_out_training


class FusedMetaGraph(NamedTuple):
    """What became of a graph.

    Attributes:
      meta_graph: The MetaGraphDef with fused lookups; the given one if none is fused.
      report: What was fused, and why other lookups were not.
      stock_nodes: How many nodes the given graph has, those of functions that it calls included.
      once: What is computed once for repeated inputs, and what is not although it reads nothing
        else of a request, a line each.
    """

    meta_graph: Any
    report: Report
    stock_nodes: int
    once: Sequence[str] = ()


def fused_meta_graph(
    stock: Any, options: SessionOptions, repeated: Sequence[str] = ()
) -> FusedMetaGraph:
    """Fuses the lookups of a graph that serves.

    Args:
      stock: A MetaGraphDef, which is not changed.
      options: What is fused.
      repeated: Inputs that are the same in all rows of a request: what depends on them alone is
        computed once.

    Raises:
      tf.errors.FailedPreconditionError: The graph was rewritten before.
      tf.errors.InvalidArgumentError: It is not valid; there is no such input.
    """
    meta_graph = tf.MetaGraphDef()
    meta_graph.CopyFrom(stock)
    calls = inline_functions(meta_graph)
    stock_nodes = len(meta_graph.graph_def.node)
    leave_out_training(meta_graph)
    inferred = add_shapes(meta_graph.graph_def)
    if calls and not inferred:
        add_missing_shapes(meta_graph.graph_def)
    once = Report()
    if repeated:
        once = _compute_once(meta_graph, repeated)
    planned = plan(meta_graph.graph_def, dataclasses.replace(options, served=_fetches(meta_graph)))
    is_fused = bool(planned.rewrites and planned.report.fused)
    inlined = [counted(calls, "call") + " of functions replaced by what they compute"] * bool(calls)
    report = dataclasses.replace(
        planned.report,
        refusals=(*once.refusals, *planned.report.refusals),
        changes=(*inlined, *planned.report.changes),
    )
    if not is_fused and not once.changes:
        return FusedMetaGraph(stock, report, stock_nodes, _lines(once))
    if is_fused:
        _apply(meta_graph, planned)
    if inferred:
        meta_graph.graph_def.CopyFrom(without_shapes(meta_graph.graph_def))
    meta_graph.meta_info_def.tags.append(FUSED)
    list_ops(meta_graph)
    return FusedMetaGraph(meta_graph, report, stock_nodes, _lines(once))


def _compute_once(meta_graph: Any, repeated: Sequence[str]) -> Report:
    """Has a graph compute once what depends on repeated inputs alone; returns what was done."""
    rows = request_rows(meta_graph, GraphView(meta_graph.graph_def), repeated)
    planned = repeated_rows(meta_graph.graph_def, rows)
    if planned.rewrites:
        _apply(meta_graph, planned)
        note_repeated_inputs(meta_graph, [*rows.repeated, *rows.listed])
    return planned.report


def _lines(once: Report) -> List[str]:
    refused = ["for all rows: {node}: {saw}".format(**refusal) for refusal in once.refusals]
    return [*once.changes, *refused]


def _apply(meta_graph: Any, planned: Planned) -> None:
    """Rewrites the graph, and has everything else name what is in the rewritten one."""
    graph_def = apply_to_graph_def(meta_graph.graph_def, *planned.rewrites)
    _rename_results(meta_graph, planned.name_map)
    _remove(graph_def, _unneeded(graph_def, meta_graph, planned.name_map))
    meta_graph.graph_def.CopyFrom(graph_def)


def _fetches(meta_graph: Any) -> Tuple[FrozenSet[str], ...]:
    """The nodes that requests of each signature fetch."""
    return tuple(
        frozenset(
            node_of(part.name) for info in signature.outputs.values() for part in named_parts(info)
        )
        for signature in predicting_signatures(meta_graph).values()
    )


def _rename_results(meta_graph: Any, name_map: NameMap) -> None:
    """Names the results of fused ops where those of lookups were named."""
    for info in tensors_of_signatures(meta_graph):
        info.name = name_map.substitutes.get(info.name, info.name)
    for collection in meta_graph.collection_def.values():
        if collection.WhichOneof("kind") == "node_list":
            names = collection.node_list.value
            names[:] = [name_map.substitutes.get(name, name) for name in names]


def _unneeded(graph_def: Any, meta_graph: Any, name_map: NameMap) -> Set[str]:
    """Nodes that only lookups needed which others replaced."""
    view = GraphView(graph_def)
    kept: Set[str] = set()
    waiting = named_among(meta_graph, name_map.dead)
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept.add(name)
            waiting.extend(view.predecessors(name))
    return set(name_map.dead) - kept


def _remove(graph_def: Any, names: Set[str]) -> None:
    kept = [node for node in graph_def.node if node.name not in names]
    if len(kept) < len(graph_def.node):
        copies = tf.GraphDef()
        copies.node.extend(kept)
        del graph_def.node[:]
        graph_def.node.extend(copies.node)


def list_ops(meta_graph: Any) -> None:
    """Adds the definitions of our ops to those of the graph's, where TensorFlow has listed them."""
    listed = meta_graph.meta_info_def.stripped_op_list.op
    definitions = {definition.name: definition for definition in listed}
    if not definitions:
        return
    for op in {node.op for node in meta_graph.graph_def.node} - set(definitions):
        definition = op_definition(op)
        if definition is not None:
            added = type(definition).FromString(definition.SerializeToString())
            _strip_texts(added)
            definitions[op] = added
    ordered = type(meta_graph.meta_info_def.stripped_op_list)()
    ordered.op.extend([definitions[name] for name in sorted(definitions)])
    meta_graph.meta_info_def.stripped_op_list.CopyFrom(ordered)


def _strip_texts(definition: Any) -> None:
    definition.ClearField("summary")
    definition.ClearField("description")
    for part in (*definition.input_arg, *definition.output_arg, *definition.attr):
        part.ClearField("description")
