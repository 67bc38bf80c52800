"""Adds to the options of a graph which of its parameter servers have graph_opt's ops."""

from __future__ import annotations

import dataclasses
from typing import Any, FrozenSet

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.config.options import SessionOptions
from graph_opt.passes.tasks import task_of
from graph_opt.session.server_ops import tasks_without_ops

_CPU = "/device:CPU:0"


def with_server_ops(graph: Any, options: SessionOptions, target: str) -> SessionOptions:
    """Returns the options with `servers_with_ops` set to the tasks that have graph_opt's ops.

    Args:
      graph: The graph; the tasks that hold its variables are asked.
      options: The session's options.
      target: The session's target; with "" nobody is asked.

    Raises:
      tf.errors.FailedPreconditionError: A server lacks them although `require_server_ops` is set.
      tf.errors.UnavailableError: A server does not answer.
    """
    grouped = options.group_embedding
    tasks = _tasks_of_variables(graph)
    if grouped is None or not target or not tasks:
        return options
    named = {task.replace(_CPU, ""): task for task in sorted(tasks)}
    lacking = frozenset(named[name] for name in tasks_without_ops(target, named))
    if lacking and grouped.require_server_ops:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "group_embedding_options.require_server_ops is set, but {} has not loaded graph_opt's "
            "ops: call graph_opt.load_op_library() in that process before its tf.train.Server "
            "starts, or leave the option out to have its tables looked up by TensorFlow's "
            "ops".format(", ".join(sorted(lacking))),
        )
    return dataclasses.replace(options, servers_with_ops=tasks - lacking)


def _tasks_of_variables(graph: Any) -> FrozenSet[str]:
    devices = {op.device for op in graph.get_operations() if op.type in VARIABLES}
    tasks = {task_of(device) for device in devices}
    return frozenset(task for task in tasks if task is not None)
