"""What the steps of a stage draw from, and how its threads take turns drawing.

    step 0   Turn [get_next] TurnEnd  [parse ........] [put in place 0]
    step 1   Turn waits .....[get_next] TurnEnd  [parse ........] [put in place 1]

Control edges enforce the turns: the sources wait for `TensorBufferTurn`, and
`TensorBufferTurnEnd` waits for the sources. If all kernels of a step run in one thread, they run in
any order that the edges allow. So whatever reads a source waits for the end of the turn; otherwise
all of the step might run before it.

A stage with one thread, one with `unordered`, and one that draws from nothing have neither places
nor turns; their elements leave as they arrive.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set

from graph_opt.compat import live_graph, stateful_ops
from graph_opt.compat.stateful_ops import CALLS_PYTHON
from graph_opt.ops.stage_nodes import BUFFER_TAKE, turn_nodes
from graph_opt.ops.stage_spec import StageSpec


def takes_upstream(tensors: Sequence[Any]) -> List[Any]:
    """The takes that these tensors depend on, sorted by name; the search stops at each take."""
    takes = [each for each in _operations_behind(tensors, ()) if each.type == BUFFER_TAKE]
    return sorted(takes, key=_name)


def sources_upstream(tensors: Sequence[Any], fed: Sequence[str] = ()) -> List[Any]:
    """The operations that give these tensors a new value at each step, sorted by name.

    These are takes from earlier stages, iterators, queues, seeded random numbers, and a `py_func`
    that depends on none of them: it makes batches by itself.

    Args:
      tensors: What a step computes.
      fed: Names of the tensors that each step feeds; nothing upstream of them runs.
    """
    operations = _operations_behind(tensors, fed)
    functions: Dict[str, Any] = {}
    if any(each.type in stateful_ops.FUNCTION_CALLS for each in operations):
        functions = live_graph.functions_of(tensors[0].graph)
    sources = {
        each
        for each in operations
        if stateful_ops.may_draw(each.type) and stateful_ops.draws(each.node_def, functions)
    }
    given = sources | {each for each in operations if _is_fed(each, fed)}
    for each in operations:
        if each.type in CALLS_PYTHON and given.isdisjoint(_operations_behind(each.outputs, fed)):
            sources.add(each)
    return sorted(sources, key=_name)


def take_turns(spec: StageSpec, device: str, tensors: Sequence[Any], sources: Sequence[Any]) -> Any:
    """Lets the steps of a stage run `sources` one at a time, in the order of their places.

    Args:
      spec: The stage, whose control nodes are in the graph.
      device: Where the buffer lives.
      tensors: What a step computes.
      sources: What they are drawn from, at least one operation. None may be inside a `tf.cond` or
        `tf.while_loop`, since what waits for a branch that is not taken never runs.

    Returns:
      The operation that the put must wait for.
    """
    graph = tensors[0].graph
    nodes = turn_nodes(spec, device)
    with live_graph.edited(graph):
        turn, turn_end = live_graph.add_nodes(graph, nodes)
        for source in sources:
            live_graph.add_control_inputs(graph, source.name, [turn.name])
        live_graph.add_control_inputs(graph, turn_end.name, [source.name for source in sources])
        for reader in _readers(tensors, sources):
            live_graph.add_control_inputs(graph, reader.name, [turn_end.name])
    return turn_end


def _readers(tensors: Sequence[Any], sources: Sequence[Any]) -> List[Any]:
    """What reads a source and is not needed by one: it can wait until all of them are drawn."""
    drawn_from = _operations_behind([output for each in sources for output in each.outputs], ())
    readers = {user for each in sources for output in each.outputs for user in output.consumers()}
    of_step = _operations_behind(tensors, ())
    return sorted((readers & of_step) - drawn_from, key=_name)


def _operations_behind(tensors: Sequence[Any], fed: Sequence[str]) -> Set[Any]:
    """Everything that a step runs to compute the tensors."""
    seen: Set[Any] = set()
    waiting = [tensor.op for tensor in tensors]
    while waiting:
        operation = waiting.pop()
        if operation in seen:
            continue
        seen.add(operation)
        if operation.type == BUFFER_TAKE or _is_fed(operation, fed):
            continue
        waiting.extend(tensor.op for tensor in operation.inputs)
        waiting.extend(operation.control_inputs)
    return seen


def _is_fed(operation: Any, fed: Sequence[str]) -> bool:
    """Whether all outputs of the operation are fed."""
    names = [output.name for output in operation.outputs]
    return bool(names) and all(name in fed for name in names)


def _name(operation: Any) -> str:
    return str(operation.name)
