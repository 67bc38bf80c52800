"""What holds for a graph that passes made, whatever they made it of."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any, Iterator

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import op_definition
from graph_opt.config.options import SessionOptions
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.deferred import DeferredVariables
from graph_opt.passes.fusion.users_nodes import UsersNodes
from graph_opt.passes.micro_batches.micro_batch_names import MicroBatchNames
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.optimize import Planned, plan
from graph_opt.passes.pipeline.pipelined_names import PipelinedNames
from graph_opt.passes.prefetch.exact.exact_tables import ExactTables
from graph_opt.passes.prefetch.measured_lookups import Sampling
from graph_opt.passes.prefetch.verify_stages import verify_stages
from graph_opt.passes.shard_tables.sharded_variables import ShardedVariables

# Attributes of graph_opt's own ops that passes set; all else of a user's node stays.
SET_BY_PASSES = frozenset(["pool_on_server", "row_logs", "row_log_length", "served_shards"])
DIVIDED = frozenset(["shape", "_output_shapes"])


def as_bytes(graph_def: Any) -> bytes:
    text: bytes = graph_def.SerializeToString(deterministic=True)
    return text


def same(one: Any, other: Any) -> bool:
    """Whether two graphs are the same, but for the number of a stage's messages.

    Ranks of a process meet under these, so that they differ from plan to plan.
    """
    if not any(node.op == "ExchangeAllToAll" for node in one.node):
        return as_bytes(one) == as_bytes(other)
    texts = [re.sub(r"_stage_\d+", "", str(graph_def)) for graph_def in (one, other)]
    return texts[0] == texts[1]


def importable(graph_def: Any, divided: bool) -> Any:
    """The graph with ops that this process has in the place of Horovod's."""
    changed = tf.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        if node.op.startswith("Horovod"):
            node.op = "Identity"
        if divided:
            # Nodes still have the shapes of whole tables, as those of a live graph do.
            node.attr.pop("_output_shapes", None)
    return changed


def require_legal(graph_def: Any, divided: bool = False) -> GraphView:
    """Fails unless the graph is one that TensorFlow takes; returns its view."""
    names = collections.Counter(node.name for node in graph_def.node)
    assert [name for name, count in names.items() if count > 1] == []
    view = GraphView(graph_def)
    verify_stages(view)
    for node in graph_def.node:
        assert all(each.WhichOneof("value") for each in node.attr.values()), node.name
        kinds = [text.startswith("^") for text in node.input]
        assert kinds == sorted(kinds), node.name
        controls = view.controls(node.name)
        assert len(set(controls)) == len(controls) and node.name not in controls, node.name
        for tensor in view.inputs(node.name):
            assert view.dtypes(tensor.node) is None or view.dtype(tensor) is not None, node.name
    with tf.Graph().as_default():
        tf.import_graph_def(importable(graph_def, divided), name="")
    return view


def require_kept(before: Any, after: Any, divided: bool) -> None:
    """Fails unless nothing but edges of the given nodes has changed."""
    there = {node.name: node for node in after.node}
    for node in before.node:
        found = there[node.name]
        assert (found.op, found.device) == (node.op, node.device), node.name
        differing = {key for key in {*node.attr, *found.attr} if node.attr[key] != found.attr[key]}
        assert differing <= (SET_BY_PASSES | DIVIDED if divided else SET_BY_PASSES), node.name
    assert after.library == before.library and after.versions == before.versions


def texts_of(name_map: NameMap) -> Iterator[str]:
    """All tensors and nodes of the rewritten graph that names stand for."""
    yield from name_map.substitutes.values()
    yield from name_map.taken.values()
    for part in name_map.parts:
        if isinstance(part, DeferredVariables):
            yield from part.current_values.values()
        elif isinstance(part, MicroBatchNames):
            yield from part.results.values()
        elif isinstance(part, Sampling):
            for stage in part.stages:
                yield from (stage.first, stage.missed, stage.squares, stage.measured)
        elif isinstance(part, ExactTables):
            yield from part.side_targets.values()
            for again in part.read_again:
                yield from again
        elif isinstance(part, UsersNodes):
            yield from part.of_variables
        elif isinstance(part, PipelinedNames):
            yield part.push
        else:
            assert isinstance(part, ShardedVariables), part


def comparable(name_map: NameMap) -> NameMap:
    """The name_map with refusals as what they say, since exceptions are never equal."""
    exact = name_map.part(ExactTables)
    if exact is None:
        return name_map
    told: Any = {node: refusal.to_dict() for node, refusal in exact.refused.items()}
    return name_map.with_part(dataclasses.replace(exact, refused=told))


def require_name_map(name_map: NameMap, view: GraphView) -> None:
    """Fails unless it names what there is."""
    for text in texts_of(name_map):
        tensor = TensorRef.parse(text)
        assert tensor.node in view, text
        assert ":" not in text or view.dtype(tensor) is not None, text
    assert [name for name in name_map.not_run if name not in view] == []


def require_report(report: Any) -> None:
    """Fails unless each lookup is told once, as moved or with a reason."""
    for told in (report.lookups, report.fused_lookups):
        outputs = [(one.name, getattr(one, "output", "")) for one in told]
        assert len(set(outputs)) == len(outputs), outputs


def without_defaults(graph_def: Any) -> Any:
    """The graph without attributes that have their default value, as SavedModels leave them out."""
    changed = tf.GraphDef()
    changed.CopyFrom(graph_def)
    for node in changed.node:
        definition = op_definition(node.op)
        for attribute in definition.attr if definition is not None else ():
            given = attribute.name in node.attr and attribute.HasField("default_value")
            if given and node.attr[attribute.name] == attribute.default_value:
                del node.attr[attribute.name]
    return changed


def require_legal_rewrite(graph_def: Any, options: SessionOptions) -> Planned:
    """Fails unless passes make a graph that is as it has to be, and leave their argument alone.

    Returns:
      What they make.
    """
    graphs = [graph_def, without_defaults(graph_def)]
    given = [as_bytes(graph) for graph in graphs]
    planned = [plan(graph, options) for graph in graphs]
    assert [as_bytes(graph) for graph in graphs] == given
    results = [apply_to_graph_def(graph, *one.rewrites) for graph, one in zip(graphs, planned)]
    assert same(*map(without_defaults, results))
    assert comparable(planned[0].name_map) == comparable(planned[1].name_map)
    divided = planned[0].name_map.part(ShardedVariables) is not None
    require_kept(graph_def, results[0], divided)
    require_name_map(planned[0].name_map, require_legal(results[0], divided))
    require_report(planned[0].report)
    require_once(results[0], options)
    return planned[0]


def require_once(rewritten: Any, options: SessionOptions) -> None:
    """Fails if something is done twice: the second time nothing is left to do, or that is said."""
    try:
        assert plan(rewritten, options).rewrites == ()
    except tf.errors.FailedPreconditionError as error:
        assert "before" in str(error)
