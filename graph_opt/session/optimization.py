"""Decides when a session or a hook optimizes its graph: once, in time, and only if worthwhile.

A graph that was left unchanged is looked at again once it has grown.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Collection, Iterable, Iterator, Optional

from graph_opt.compat import tf
from graph_opt.compat.buffer_owners import name_buffers_after_graph
from graph_opt.compat.live_graph import planned
from graph_opt.compat.unmerged_nodes import keep_apart
from graph_opt.compat.variable_ops import TRAINS, UPDATES, VariableUse, is_use, use_of
from graph_opt.config.options import (
    GroupEmbeddingOptions,
    SessionOptions,
    ShardTablesOptions,
    session_options,
)
from graph_opt.embedding.marked_tables import marked_tables
from graph_opt.reporting.report import Report
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.rules.op_names import is_collective
from graph_opt.runtime.stages import stages_of
from graph_opt.session.graph_records import is_settled, was_rewritten_differently, was_stopped
from graph_opt.session.live import OptimizationRequest, optimize_live_graph
from graph_opt.sharding.merged_updates import keep_updates_apart, note_updates_of

_NOT_PREFETCHED = (
    "the graph trains nothing, so its lookups do not run ahead (graph_opt.optimize_graph asks for "
    "it)"
)
_NOT_STAGED = "the graph trains nothing, so there is no smart stage"
_NOT_FUSED = (
    "the graph trains nothing, so its lookups are not fused (the option fuse_inference asks for it)"
)
_NO_MICRO_BATCHES = "the graph trains nothing, so its batches are not divided"
_NOT_DIVIDED = "the graph trains nothing, so its tables stay whole"
_STOPPED = (
    "the graph trains nothing, so its steps are not compared, and a training step with the same "
    "options was not TensorFlow's: nothing is rewritten"
)
_REWRITTEN_BEFORE = "the graph was rewritten before: its stages run as they are"
_OTHER_OPTIONS = (
    "a later session asks for options other than those its graph was rewritten with; they have no "
    "effect: a graph is rewritten only once, so build the model in a new tf.Graph to use them"
)


def optimize_before_first_run(
    graph: Any, config: Any, target: str, fetched: Iterable[Any] = ()
) -> None:
    """Optimizes the graph of a session that is about to run for the first time.

    The lookups of a graph that trains nothing are fused only if `fuse_inference` asks for it; the
    graph's report says so.

    Args:
      graph: The session's graph.
      config: The session's extended config; None for none.
      target: The session's target, if known.
      fetched: Tensors and operations of this run; those that are prefetched stay fetchable.

    Raises:
      tf.errors.InvalidArgumentError: The pass refuses the graph.
    """
    with planned(graph):
        _optimize(graph, config, target, fetched, prefetches_inference=True)
        _tell_nodes_apart(graph)
        _keep_updates(graph, config)


def optimize_training_graph(
    graph: Any, config: Any, target: str = "", fetched: Iterable[Any] = ()
) -> None:
    """Optimizes a graph for hooks and session creators, before it is finalized.

    The lookups of a graph that trains nothing (evaluation, prediction) are not prefetched, and are
    fused unless `fuse_inference` is off; the graph's report says so. Calling
    `graph_opt.optimize_graph` beforehand does both regardless.

    Args:
      graph: The graph about to be finalized, or already finalized if a session is being recovered.
      config: The session's extended config; None for none.
      target: The session's target, if known.
      fetched: Tensors and operations that steps are known to fetch.

    Raises:
      tf.errors.InvalidArgumentError: The pass refuses the graph.
    """
    with planned(graph):
        _optimize(graph, config, target, fetched, prefetches_inference=False)
        _tell_nodes_apart(graph)
        _keep_updates(graph, config)


def _tell_nodes_apart(graph: Any) -> None:
    name_buffers_after_graph(graph)
    note_updates_of(graph)
    # If ranks kept different ones of two equal messages, each would wait for the other's forever.
    keep_apart(operation for operation in graph.get_operations() if is_collective(operation.type))


def _keep_updates(graph: Any, config: Any) -> None:
    """Leaves updates of sharded tables to TensorFlow's ops where a config asks for it."""
    grouped = None if config is None else session_options(config).group_embedding
    if grouped is not None and not grouped.fuse_update:
        keep_updates_apart(graph)


def is_training_graph(graph: Any) -> bool:
    """Whether the graph updates variables with gradients and is not an evaluation graph.

    Example:
      >>> is_training_graph(loss.graph)  # before optimizer.minimize(loss)
      False
    """
    if graph.get_collection(tf.GraphKeys.EVAL_STEP):
        return False  # Many model functions create their optimizer for evaluation, too.
    if graph.get_collection(tf.GraphKeys.TRAIN_OP):
        return True
    return train_by_any_op(graph, graph.get_operations())


def train_by_any_op(graph: Any, operations: Collection[Any]) -> bool:
    """Whether these update variables, by gradients or a trained one by its own value."""
    return is_training_step(operations) or moves_trained_variables(graph, operations)


def is_training_step(operations: Iterable[Any]) -> bool:
    """Whether these include an update of a variable by gradients."""
    return any(is_use(operation.type, TRAINS) for operation in operations)


def moves_trained_variables(graph: Any, operations: Iterable[Any]) -> bool:
    """Whether these change a trained variable by its own value, in whatever way; slower."""
    trained = {variable.op for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    return any(_moves_one_of(trained, operation) for operation in operations)


def _moves_one_of(variables: AbstractSet[Any], operation: Any) -> bool:
    """Whether this changes one of the variables by its own value; initializers do not."""
    variable = operation.inputs[0].op if operation.inputs else None
    if variable not in variables:
        return False
    if use_of(operation.type) is not VariableUse.SETS:
        return is_use(operation.type, UPDATES)
    return any(_depends_on(each.op, variable) for each in operation.inputs[1:])


def _depends_on(operation: Any, wanted: Any) -> bool:
    pending, seen = [operation], {operation}
    while pending:
        found = pending.pop()
        if found is wanted:
            return True
        sources = {tensor.op for tensor in found.inputs} - seen
        seen |= sources
        pending.extend(sources)
    return False


def asks_for_anything(config: Any) -> bool:
    """Whether a session's config (None for none) asks for any optimization."""
    return config is not None and session_options(config).ask_for_anything


def leaves_inference(report: Optional[Report]) -> bool:
    """Whether lookups could be fused, but are not since their graph trains nothing."""
    return report is not None and _NOT_FUSED in report.left_alone


def _optimize(
    graph: Any, config: Any, target: str, fetched: Iterable[Any], prefetches_inference: bool
) -> None:
    asked = _asked(graph, config, target)
    if not asked.ask_for_anything:
        return
    if is_settled(graph, asked):
        if was_rewritten_differently(graph, asked):
            warn_once(_OTHER_OPTIONS, graph)
        return
    if any(stage.spec.is_prefetch or stage.spec.is_pipeline for stage in stages_of(graph)):
        nothing = asked.asking_for_nothing()
        optimize_live_graph(
            graph, OptimizationRequest(nothing, asked, (_REWRITTEN_BEFORE,), final=True)
        )
        return
    request = OptimizationRequest(asked, asked)
    if not is_training_graph(graph):
        request = _for_inference(asked, prefetches_inference)
    names = frozenset(_tensor_names(graph, fetched))
    options = dataclasses.replace(request.options, fetched=names)
    optimize_live_graph(graph, dataclasses.replace(request, options=options), target)


def _asked(graph: Any, config: Any, target: str) -> SessionOptions:
    """What a session asks for, by its config or by tables that its script has marked."""
    options = SessionOptions() if config is None else session_options(config, target)
    marked = tuple(table.op.name for table in marked_tables(graph))
    if not marked:
        return options
    wanted = options.shard_tables or ShardTablesOptions(only_marked=True)
    names = tuple(dict.fromkeys((*wanted.tables, *marked)))
    return dataclasses.replace(options, shard_tables=dataclasses.replace(wanted, tables=names))


def _for_inference(asked: SessionOptions, prefetches: bool) -> OptimizationRequest:
    """What to do to a graph that trains nothing, and why no more than that."""
    if was_stopped(asked):
        nothing = asked.asking_for_nothing()
        return OptimizationRequest(nothing, asked, (_STOPPED,), final=not prefetches)
    options, reasons = dataclasses.replace(asked, evaluates=True), []
    grouped = asked.group_embedding
    if grouped is not None and not _fuses_inference(grouped, is_complete=not prefetches):
        options = dataclasses.replace(options, group_embedding=None)
        reasons.append(_NOT_FUSED)
    if asked.async_embedding is not None and not prefetches:
        options = dataclasses.replace(options, async_embedding=None)
        reasons.append(_NOT_PREFETCHED)
    if asked.smart_stage is not None and not prefetches:
        options = dataclasses.replace(options, smart_stage=None)
        reasons.append(_NOT_STAGED)
    if asked.micro_batches is not None:
        options = dataclasses.replace(options, micro_batches=None)
        reasons.append(_NO_MICRO_BATCHES)
    if asked.shard_tables is not None:
        # It may be the graph of one rank alone, which would wait for the others.
        options = dataclasses.replace(options, shard_tables=None)
        reasons.append(_NOT_DIVIDED)
    return OptimizationRequest(options, asked, tuple(reasons), final=not prefetches)


def _fuses_inference(grouped: GroupEmbeddingOptions, is_complete: bool) -> bool:
    """Whether to fuse lookups although nothing trains yet.

    A graph that may still grow is left alone: its lookups would be fused without their updates, and
    a plain session may only load, save or export.
    """
    return is_complete if grouped.fuse_inference is None else grouped.fuse_inference


def _tensor_names(graph: Any, fetched: Iterable[Any]) -> Iterator[str]:
    for element in fetched:
        if element.graph is graph:
            tensors = element.outputs[:1] if isinstance(element, tf.Operation) else [element]
            yield from (tensor.name for tensor in tensors)
