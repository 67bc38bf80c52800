"""When a session or a hook optimizes its graph: once, in time, and only where it makes sense."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE
from graph_opt.runtime.stages import stages_of
from graph_opt.session import graph_use
from graph_opt.session.live import leave_alone, optimize_with
from graph_opt.session.treated_graphs import was_optimized

_NOT_PREFETCHED = (
    "the graph trains nothing, so its lookups are not prefetched: call "
    "graph_opt.optimize_graph(graph, config) before the session is made to prefetch them all the "
    "same"
)
_NOT_FUSED = (
    "the graph trains nothing, so its lookups are not fused: set "
    "group_embedding_options.fuse_inference to fuse them all the same"
)
_NO_INPUT = (
    "the graph has no iterator, queue or IO stage, so there is nothing to prefetch: give the "
    "session's lookups a batch source, or call graph_opt.staged(features)"
)
_UPDATE_OP = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_KIND_PREFETCH = "prefetch"


def optimize_before_first_run(graph: Any, config: Any, target: str) -> None:
    """What a session does at its first run.

    A graph without any batch source (an exported model, a few constants) is not split: there is
    nothing to run ahead. The lookups of a graph that trains nothing are fused only where
    `fuse_inference` asks for it. The graph's report says so.

    Args:
      graph: The session's graph.
      config: The session's extended config, None for none.
      target: The session's target, where it is known.

    Raises:
      tf.errors.FailedPreconditionError: the graph is finalized, or another session ran it.
      tf.errors.InvalidArgumentError: the pass refuses the graph.
    """
    if not _wants_optimization(graph, config):
        return
    options = _fusing_where_asked(graph, session_options(config))
    if options.async_embedding is not None and not _has_batch_source(graph):
        options = _without(options, _NO_INPUT, async_embedding=None)
    _optimize(graph, options, target)


def optimize_training_graph(graph: Any, config: Any, target: str = "") -> None:
    """What hooks and session creators do before the graph is finalized.

    The lookups of a graph that trains nothing (evaluation, prediction) are not prefetched, and
    fused only where `fuse_inference` asks for it; its report says so. `graph_opt.optimize_graph`,
    called first, does both all the same.

    Args:
      graph: The graph about to be finalized, or finalized before when a session is recovered.
      config: The session's extended config, None for none.
      target: The session's target, where it is known.

    Raises:
      tf.errors.FailedPreconditionError: the graph is finalized, or a session ran it.
      tf.errors.InvalidArgumentError: the pass refuses the graph.
    """
    if not _wants_optimization(graph, config):
        return
    options = _fusing_where_asked(graph, session_options(config))
    if options.async_embedding is not None and not is_training_graph(graph):
        options = _without(options, _NOT_PREFETCHED, async_embedding=None)
    _optimize(graph, options, target)


def is_training_graph(graph: Any) -> bool:
    """Whether the graph updates variables by gradients, and is not one that evaluates a model.

    Example:
      >>> is_training_graph(loss.graph)  # before optimizer.minimize(loss)
      False
    """
    if graph.get_collection(tf.GraphKeys.EVAL_STEP):
        return False  # Many model functions make their optimizer for evaluation, too.
    if graph.get_collection(tf.GraphKeys.TRAIN_OP):
        return True
    return any(_UPDATE_OP.match(operation.type) for operation in graph.get_operations())


def _wants_optimization(graph: Any, config: Any) -> bool:
    if config is None:
        return False
    options = session_options(config)
    if options.async_embedding is None and options.group_embedding is None:
        return False
    if was_optimized(graph):
        return False  # Once is enough: sessions are recovered, graphs used by several.
    return not any(stage.kind == _KIND_PREFETCH for stage in stages_of(graph))


def _has_batch_source(graph: Any) -> bool:
    kinds = set(BATCH_SOURCES) | {BUFFER_TAKE}
    return any(operation.type in kinds for operation in graph.get_operations())


def _fusing_where_asked(graph: Any, options: SessionOptions) -> SessionOptions:
    grouped = options.group_embedding
    if grouped is None or grouped.fuse_inference or is_training_graph(graph):
        return options
    return _without(options, _NOT_FUSED, group_embedding=None)


def _without(options: SessionOptions, reason: str, **off: Any) -> SessionOptions:
    return dataclasses.replace(options, warnings=(*options.warnings, reason), **off)


def _optimize(graph: Any, options: SessionOptions, target: str) -> None:
    if options.async_embedding is None and options.group_embedding is None:
        leave_alone(graph, options.warnings)
        return
    if graph.finalized:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "the config asks for edits of the graph, but the graph is finalized: create the "
            "session before graph.finalize(), or call graph_opt.optimize_graph(graph, config) "
            "before it",
        )
    graph_use.refuse_if_run(graph)
    optimize_with(graph, options, target)
