"""Error messages as they would be without prefetching."""

from __future__ import annotations

import re
from typing import Any

from graph_opt.runtime.stages import stages_of

# TensorFlow appends each op that an error passed through: [[{{node first}}]] [[second]] [[third]].
_THROUGH_A_TAKE = re.compile(r"\n\s*\[\[[^\]{}]*TensorBufferTake[^\]{}]*\]\]")
# A gRPC session prefixes the task of the op that failed, and before it that of the take.
_FROM_TAKES_TASK = re.compile(r"^From /job:[^\n]*:\n(?=From /job:)")


def without_takes(message: str) -> str:
    """The message without the takes that the error passed through."""
    if "TensorBufferTake" not in message:
        return message
    return _FROM_TAKES_TASK.sub("", _THROUGH_A_TAKE.sub("", message))


def as_in_graph(message: str, graph: Any) -> str:
    """The message with the user's nodes instead of their clones in a prefetch region.

    Args:
      message: The message of an error in a step of a stage.
      graph: The graph of the session.
    """
    message = without_takes(message)
    for stage in stages_of(graph):
        if stage.spec.is_prefetch or stage.spec.is_pipeline:
            message = _with_originals(message, stage.name, graph)
    return message


def too_many_ignored(stage: str, count: int, last: str) -> str:
    """What a stage says that has ignored so many batches, the last because of this."""
    return "stage '{}' ignored {} batches in a row, the last because of: {}".format(
        stage, count, last
    )


def _with_originals(message: str, scope: str, graph: Any) -> str:
    def original(match: Any) -> str:
        return str(match.group(1) if _has_operation(graph, match.group(1)) else match.group(0))

    return re.sub(r"(?<![\w./-])" + re.escape(scope) + r"/([\w.\\/>-]*\w)", original, message)


def _has_operation(graph: Any, name: str) -> bool:
    try:
        graph.get_operation_by_name(name)
    except KeyError:
        return False
    return True
