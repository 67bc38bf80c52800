"""Keeps stock sessions from running the original batch source of a stage.

The source gets a control edge from an `Assert` that always fails, so that a stock session that
fetches a tensor of the prefetch region gets an error instead of a batch that training would miss.
"""

from __future__ import annotations

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.view import GraphView
from graph_opt.passes.io_stages import BUFFER_TAKE
from graph_opt.passes.node_writer import NodeWriter

_GUARD = "fetch_guard"
_MESSAGE = (
    "a tensor of the prefetch region of stage '{0}' was fetched (batch source '{1}'): it is "
    "computed ahead by prefetch threads and exists there alone. Fetch it in a graph_opt session "
    "(boundary tensors are mapped to '{0}/{2}'), or mark it with "
    "graph_opt.async_embedding_mark_node(tensor) before the session is made."
)


def guard_source(writer: NodeWriter, view: GraphView, source: str, edits: Edits) -> None:
    """Has a source wait for a guard, and detaches its handles."""
    text = _MESSAGE.format(writer.scope, source, BUFFER_TAKE)
    condition = writer.constant(_GUARD + "/condition", np.bool_(False))
    message = writer.constant(_GUARD + "/message", text)
    guard = writer.call(_GUARD, "Assert", condition=condition, data=[message])
    edits.wait(source, guard.name)
    _cut_handles(writer, view, source, guard.name, edits)


def is_guard(op: str, name: str) -> bool:
    """Whether a node is the `Assert` that keeps a stage's original source from running."""
    return op == "Assert" and name.rpartition("/")[2] == _GUARD


def _cut_handles(
    writer: NodeWriter, view: GraphView, source: str, guard: str, edits: Edits
) -> None:
    """Replaces the source's handles with placeholders.

    If it still read its handles, a guarded fetch could cancel a one-shot iterator during its
    creation, which would leave it broken for the prefetch threads, too.
    """
    for slot, tensor in enumerate(view.inputs(source)):
        if view.dtype(tensor) != tf.resource.as_datatype_enum:
            continue
        handle = writer.call(
            "{}/handle_{}".format(_GUARD, slot),
            "Placeholder",
            waits_for=[guard],
            dtype=tf.resource.as_datatype_enum,
            shape=(),
        )
        edits.move_input(source, slot, handle.result)
