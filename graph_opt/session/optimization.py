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
from graph_opt.session.treated_graphs import is_treated

_TRAINS_NOTHING = (
    "the graph trains nothing, so its lookups are not prefetched: call "
    "graph_opt.optimize_graph(graph, config) before the session is made to prefetch them all the "
    "same"
)
_UPDATE_OP = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_KIND_PREFETCH = "prefetch"


def optimize_before_first_run(graph: Any, config: Any, target: str) -> None:
    """What a session does at its first run.

    A graph without any batch source (an exported model, a few constants) is not split: there is
    nothing to run ahead.

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
    options = session_options(config)
    if not _has_batch_source(graph):
        options = dataclasses.replace(options, async_embedding=None)
    if options.async_embedding is not None or options.group_embedding is not None:
        _optimize(graph, options, target)


def optimize_training_graph(graph: Any, config: Any, target: str = "") -> None:
    """What hooks and session creators do before the graph is finalized.

    The lookups of a graph that trains nothing (evaluation, prediction) are fused, but not
    prefetched, and its report says so: call `graph_opt.optimize_graph` first to have them
    prefetched all the same.

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
    options = session_options(config)
    if is_training_graph(graph):
        _optimize(graph, options, target)
        return
    if options.async_embedding is not None:
        tf.logging.info("graph_opt: %s", _TRAINS_NOTHING)
        warnings = (*options.warnings, _TRAINS_NOTHING)
        options = dataclasses.replace(options, async_embedding=None, warnings=warnings)
    if options.group_embedding is None:
        leave_alone(graph, _TRAINS_NOTHING)
    else:
        _optimize(graph, options, target)


def is_training_graph(graph: Any) -> bool:
    """Whether the graph updates variables by gradients.

    Example:
      >>> is_training_graph(loss.graph)  # before optimizer.minimize(loss)
      False
    """
    if graph.get_collection(tf.GraphKeys.TRAIN_OP):
        return True
    return any(_UPDATE_OP.match(operation.type) for operation in graph.get_operations())


def _wants_optimization(graph: Any, config: Any) -> bool:
    if config is None:
        return False
    options = session_options(config)
    if options.async_embedding is None and options.group_embedding is None:
        return False
    if is_treated(graph):
        return False  # Once is enough: sessions are recovered, graphs used by several.
    return not any(stage.kind == _KIND_PREFETCH for stage in stages_of(graph))


def _has_batch_source(graph: Any) -> bool:
    kinds = set(BATCH_SOURCES) | {BUFFER_TAKE}
    return any(operation.type in kinds for operation in graph.get_operations())


def _optimize(graph: Any, options: SessionOptions, target: str) -> None:
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
