"""When a session or a hook optimizes its graph: once, in time, and only where it makes sense."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Iterable, Iterator

from graph_opt.compat import tf
from graph_opt.config.options import SessionOptions, session_options
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime.stages import stages_of
from graph_opt.session.live import Treatment, treat
from graph_opt.session.treated_graphs import is_settled, was_rewritten_otherwise

_NOT_PREFETCHED = (
    "the graph trains nothing, so its lookups do not run ahead (graph_opt.optimize_graph asks for "
    "it)"
)
_NOT_FUSED = (
    "the graph trains nothing, so its lookups are not fused (the option fuse_inference asks for it)"
)
_REWRITTEN_BEFORE = "the graph was rewritten before: its stages run as they are"
_OTHER_OPTIONS = (
    "a later session asks for other options than its graph was rewritten with; they have no "
    "effect: a graph is rewritten once, so build the model in a new tf.Graph to have it otherwise"
)
_UPDATE_OP = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")
_KIND_PREFETCH = "prefetch"


def optimize_before_first_run(
    graph: Any, config: Any, target: str, fetched: Iterable[Any] = ()
) -> None:
    """What a session does at its first run.

    The lookups of a graph that trains nothing are fused only where `fuse_inference` asks for it.
    The graph's report says so.

    Args:
      graph: The session's graph.
      config: The session's extended config, None for none.
      target: The session's target, where it is known.
      fetched: Tensors and operations of this run; what of them is prefetched can be fetched later.

    Raises:
      tf.errors.InvalidArgumentError: the pass refuses the graph.
    """
    _optimize(graph, config, target, fetched, prefetches_inference=True)


def optimize_training_graph(
    graph: Any, config: Any, target: str = "", fetched: Iterable[Any] = ()
) -> None:
    """What hooks and session creators do before the graph is finalized.

    The lookups of a graph that trains nothing (evaluation, prediction) are not prefetched, and
    fused only where `fuse_inference` asks for it; its report says so. `graph_opt.optimize_graph`,
    called first, does both all the same.

    Args:
      graph: The graph about to be finalized, or finalized before when a session is recovered.
      config: The session's extended config, None for none.
      target: The session's target, where it is known.
      fetched: Tensors and operations that steps are known to fetch.

    Raises:
      tf.errors.InvalidArgumentError: the pass refuses the graph.
    """
    _optimize(graph, config, target, fetched, prefetches_inference=False)


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


def asks_for_anything(config: Any) -> bool:
    """Whether a session's config, None for none, asks for any optimization."""
    return config is not None and session_options(config).ask_for_anything


def _optimize(
    graph: Any, config: Any, target: str, fetched: Iterable[Any], prefetches_inference: bool
) -> None:
    if not asks_for_anything(config):
        return
    asked = session_options(config)
    if is_settled(graph, asked):
        if was_rewritten_otherwise(graph, asked):
            warn_once(_OTHER_OPTIONS, graph)
        return
    if any(stage.kind == _KIND_PREFETCH for stage in stages_of(graph)):
        nothing = dataclasses.replace(asked, async_embedding=None, group_embedding=None)
        treat(graph, Treatment(nothing, asked, (_REWRITTEN_BEFORE,), final=True))
        return
    treatment = Treatment(asked, asked)
    if not is_training_graph(graph):
        treatment = _for_inference(asked, prefetches_inference)
    names = frozenset(_tensor_names(graph, fetched))
    options = dataclasses.replace(treatment.options, fetched=names)
    treat(graph, dataclasses.replace(treatment, options=options), target)


def _for_inference(asked: SessionOptions, prefetches: bool) -> Treatment:
    """What is done to a graph that trains nothing, and why no more."""
    options, reasons = asked, []
    grouped = asked.group_embedding
    if grouped is not None and not grouped.fuse_inference:
        options = dataclasses.replace(options, group_embedding=None)
        reasons.append(_NOT_FUSED)
    if asked.async_embedding is not None and not prefetches:
        options = dataclasses.replace(options, async_embedding=None)
        reasons.append(_NOT_PREFETCHED)
    return Treatment(options, asked, tuple(reasons), final=not prefetches)


def _tensor_names(graph: Any, fetched: Iterable[Any]) -> Iterator[str]:
    for element in fetched:
        if element.graph is graph:
            tensors = element.outputs[:1] if isinstance(element, tf.Operation) else [element]
            yield from (tensor.name for tensor in tensors)
