"""Adds to the options of a graph which of its parameter servers have graph_opt's ops."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.config.options import SessionOptions
from graph_opt.passes.tasks import task_of
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.session.server_ops import NO_LIBRARY, Library, differing_libraries, own_library

_CPU = "/device:CPU:0"


def with_server_ops(graph: Any, options: SessionOptions, target: str) -> SessionOptions:
    """Returns the options with `servers_with_ops` set to the tasks that have graph_opt's ops.

    Tasks whose ops are defined otherwise, as those of another release, do not count, and are named.

    Args:
      graph: The graph; the tasks that hold its variables are asked.
      options: The session's options.
      target: The session's target; with "" nobody is asked.

    Raises:
      tf.errors.FailedPreconditionError: A server lacks them, or has others, although
        `require_server_ops` is set.
      tf.errors.UnavailableError: A server does not answer.
    """
    grouped = options.group_embedding
    tasks = _tasks_of_variables(graph)
    if grouped is None or not target or not tasks:
        return options
    named = {task.replace(_CPU, ""): task for task in sorted(tasks)}
    differing = differing_libraries(target, named)
    lacking = [task for task, library in differing.items() if library == NO_LIBRARY]
    others = {task: library for task, library in differing.items() if library != NO_LIBRARY}
    if grouped.require_server_ops and lacking:
        raise _required(
            "{} has not loaded graph_opt's ops: call graph_opt.load_op_library() in that process "
            "before its tf.train.Server starts".format(", ".join(lacking))
        )
    if others:
        differ = _difference(others)
        if grouped.require_server_ops:
            raise _required(differ)
        warn_once("TensorFlow's ops look up some tables, since {}".format(differ), graph)
    return dataclasses.replace(
        options, servers_with_ops=tasks.difference(named[task] for task in differing)
    )


def _required(what: str) -> tf.errors.FailedPreconditionError:
    return tf.errors.FailedPreconditionError(
        None,
        None,
        "group_embedding_options.require_server_ops is set, but {}, or leave the option out to "
        "have its tables looked up by TensorFlow's ops".format(what),
    )


def _difference(others: Dict[str, Library]) -> str:
    servers = ["{} ({})".format(task, library.release) for task, library in others.items()]
    return (
        "the ops of graph_opt on {} differ from those of this process ({}): install one release in "
        "all tasks, and start them again".format(", ".join(servers), own_library().release)
    )


def _tasks_of_variables(graph: Any) -> FrozenSet[str]:
    devices = {op.device for op in graph.get_operations() if op.type in VARIABLES}
    tasks = {task_of(device) for device in devices}
    return frozenset(task for task in tasks if task is not None)
