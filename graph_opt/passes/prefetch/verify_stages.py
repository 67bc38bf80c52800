"""The invariants of a split graph, checked after every rewrite."""

from __future__ import annotations

from graph_opt.compat.op_definitions import is_value
from graph_opt.graph.verify import GraphError, around, verify
from graph_opt.graph.view import GraphView
from graph_opt.ops.stage_nodes import CANCEL, PUT_STATUS, TURN, TURN_BEGUN, TURN_END
from graph_opt.ops.stage_spec import KIND_PREFETCH
from graph_opt.passes.applied_once import refuse_again
from graph_opt.passes.io_stages import BUFFER_TAKE, stage_puts

# Like the put, they are fed the place of a step.
_CONTROL_OPS = (PUT_STATUS, CANCEL, TURN, TURN_END, TURN_BEGUN)


def refuse_rewritten(view: GraphView) -> None:
    """Refuses a graph that has a prefetch stage.

    Raises:
      FailedPreconditionError: It has one.
    """
    puts = stage_puts(view, KIND_PREFETCH)
    refuse_again(
        puts,
        "the graph was rewritten before (node '{}'): async embedding and smart stages are",
    )


def verify_stages(view: GraphView) -> None:
    """Checks a rewritten graph: no cycles, separate regions, no state in a boundary.

    Raises:
      GraphError: A check failed; the message names the node and shows its neighbourhood.
    """
    verify(view)
    for put in stage_puts(view, KIND_PREFETCH):
        _verify_region(view, put)
        _verify_boundary(view, put)


def _verify_region(view: GraphView, put: str) -> None:
    scope = put.rpartition("/")[0] + "/"
    take = scope + BUFFER_TAKE
    region = view.ancestors([put])
    if take in region:
        raise GraphError(
            "{}: the prefetch region waits for its own take\n{}".format(put, around(view, take))
        )
    for name in region:
        if not name.startswith(scope):
            continue
        for reader in view.successors(name):
            if reader not in region and view.op(reader) not in _CONTROL_OPS:
                raise GraphError(
                    "{}: read by '{}' of main, past the buffer\n{}".format(
                        name, reader, around(view, name)
                    )
                )


def _verify_boundary(view: GraphView, put: str) -> None:
    for tensor in view.inputs(put):
        number = view.dtype(tensor)
        if number is None or not is_value(number):
            raise GraphError(
                "{}: state or an unknown value in the boundary: {}\n{}".format(
                    put, tensor, around(view, tensor.node)
                )
            )
