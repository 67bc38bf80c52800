"""Lets no rank write rows before all ranks have come to the same step.

TensorFlow's Adam, for one, scales its slots before it needs gradients. A rank that is a step ahead
of one that saves would give it such slots. So these writes wait for a message of the step:

    gradients of rows ══► ScatterAdd(m) <─^─ Assign(m * beta)      becomes
    gradients of rows ══►─^> Assign(m * beta) ─^> ScatterAdd(m)
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Optional, Set

from graph_opt.compat.graph_growth import operations_from
from graph_opt.compat.live_graph import add_control_inputs, unfinalized
from graph_opt.compat.variable_ops import CHANGES, VariableUse, is_use
from graph_opt.graph.operations import operations_behind
from graph_opt.sharding.step_messages import is_collective

_WRITES = CHANGES | {VariableUse.MAINTAINS}


def writes_to(operation: Any, variables: AbstractSet[str]) -> bool:
    """Whether an operation writes one of some variables."""
    if not is_use(operation.type, _WRITES) or not operation.inputs:
        return False
    return operation.inputs[0].op.name in variables


def delay_early_writes(graph: Any, variables: AbstractSet[str]) -> None:
    """Changes a graph, as far as no session has run it.

    Args:
      graph: The graph.
      variables: Names of the variables that have rows of sharded tables.
    """
    operations = operations_from(graph, 0)
    writes = [one for one in operations if writes_to(one, variables)]
    after = _after_collectives(operations)
    late = [one for one in writes if one in after]
    early = set(writes) - set(late)
    if not late or not early:
        return
    waits_for: Dict[Any, Set[Any]] = {}
    for write in late:
        for one in _before(write, after) & early:
            waits_for.setdefault(one, set()).add(write)
    with unfinalized(graph):
        for one, writers in sorted(waits_for.items(), key=lambda item: str(item[0].name)):
            message = _message_before(writers, one, after)
            if message is not None:
                add_control_inputs(graph, one.name, [message.name])


def _after_collectives(operations: List[Any]) -> Set[Any]:
    """The operations that wait for other ranks, or for one that does."""
    after: Set[Any] = {one for one in operations if is_collective(one)}
    followers: Dict[Any, List[Any]] = {}
    for operation in operations:
        for before in _inputs(operation):
            followers.setdefault(before, []).append(operation)
    waiting = list(after)
    while waiting:
        for follower in followers.get(waiting.pop(), ()):
            if follower not in after:
                after.add(follower)
                waiting.append(follower)
    return after


def _before(write: Any, after: Set[Any]) -> Set[Any]:
    """What a write waits for, as far as that waits for no other rank; not what is behind that."""
    found: Set[Any] = set()
    seen = {write}
    waiting = [write]
    while waiting:
        for operation in _inputs(waiting.pop()):
            if operation not in after:
                found |= operations_behind([operation])
            elif operation not in seen and not is_collective(operation):
                seen.add(operation)
                waiting.append(operation)
    return found


def _message_before(writers: Set[Any], early: Any, after: Set[Any]) -> Optional[Any]:
    """A collective that the later writes wait for anyway, and that does not wait for the early."""
    for writer in sorted(writers, key=lambda one: str(one.name)):
        seen = {writer}
        waiting = [writer]
        while waiting:
            operation = waiting.pop()
            if is_collective(operation) and early not in operations_behind([operation]):
                return operation
            for before in _inputs(operation):
                if before in after and before not in seen:
                    seen.add(before)
                    waiting.append(before)
    return None


def _inputs(operation: Any) -> List[Any]:
    return [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
