"""Who uses a variable or a hash table through its handle or reference."""

from __future__ import annotations

from typing import Iterator

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import takes_reference
from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.rules.op_names import PASS_ON

_RESOURCE = tf.resource.as_datatype_enum


def handle_uses(view: GraphView, name: str) -> Iterator[Use]:
    """The uses of a handle or reference, also behind a Switch and the like.

    Args:
      view: The graph.
      name: The node that returns the handle or reference as its only output.
    """
    is_resource = view.dtype(TensorRef(name, 0)) == _RESOURCE
    pending = [TensorRef(name, 0)]
    for tensor in pending:
        for use in view.uses(tensor):
            op = view.op(use.consumer)
            passed_on = is_resource or takes_reference(view.nodes[use.consumer], use.slot)
            if use.slot == 0 and op in PASS_ON and passed_on:
                pending.append(TensorRef(use.consumer, 0))
            elif use.slot == 0 and op in SWITCHES and passed_on:
                pending += [TensorRef(use.consumer, 0), TensorRef(use.consumer, 1)]
            else:
                yield use
