"""Which messages a step sends to other ranks."""

from __future__ import annotations

import weakref
from typing import Any, Dict, FrozenSet, List, MutableMapping, NamedTuple, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.ops.exchange import IDS
from graph_opt.ops.sent_messages import PREPARE, times_sent

IN_PROCESS = "InProcessAllToAll"
_HOROVOD = "Horovod"
# Nodes of Horovod that send nothing.
_SILENT = ("HorovodSize", "HorovodRank", "HorovodLocalSize", "HorovodLocalRank")
_OURS = "graph_opt_"
_NOTED = (PREPARE,)
_MAX_CACHED_STEPS = 512


class StepMessages(NamedTuple):
    """What a step sends.

    Attributes:
      collectives: The nodes that send something, in the order of their names.
      exchanges: Names of the exchanges whose ids it sends.
      keys: For `times_sent`: counts grow as soon as it has sent something of ours.
      nodes: Names of all nodes that it may run.
      given: The elements that it was made for, kept alive so that no other reuses their ids.
    """

    collectives: Tuple[Any, ...]
    exchanges: Tuple[str, ...]
    keys: Tuple[str, ...]
    nodes: FrozenSet[str]
    given: Tuple[Any, ...]

    def sent(self) -> int:
        """How many messages of ours its nodes have sent so far."""
        return sum(map(times_sent, self.keys))


_steps: MutableMapping[Any, Dict[Tuple[int, ...], StepMessages]] = weakref.WeakKeyDictionary()


def messages_of(
    graph: Any, fetches: Sequence[Any], targets: Sequence[Any], feeds: Sequence[Any]
) -> StepMessages:
    """What a step sends; remembered for each set of fetches, targets and feeds."""
    given = (*fetches, None, *targets, None, *feeds)
    key = tuple(map(id, given))
    steps = _steps.setdefault(graph, {})
    found = steps.get(key)
    if found is None:
        if len(steps) >= _MAX_CACHED_STEPS:
            steps.clear()
        reached = _reached([tensor.op for tensor in fetches] + list(targets), feeds)
        found = steps[key] = _messages(reached, given)
    return found


def is_collective(operation: Any) -> bool:
    """Whether a node sends something to other ranks."""
    kind = str(operation.type)
    return kind == IN_PROCESS or (kind.startswith(_HOROVOD) and kind not in _SILENT)


def message_of(operation: Any) -> str:
    """The name under which a collective meets those of the other ranks."""
    if operation.type == IN_PROCESS:
        return str(tf.compat.as_str(operation.get_attr("message")))
    scoped = not operation.get_attr("ignore_name_scope")
    return str(operation.name if scoped else operation.name.rpartition("/")[2])


def _messages(reached: Set[Any], given: Tuple[Any, ...]) -> StepMessages:
    collectives = sorted(filter(is_collective, reached), key=lambda operation: operation.name)
    names = [message_of(operation) for operation in collectives]
    keys = [_key_in_process(one) for one in collectives if one.type == IN_PROCESS]
    if not keys:  # ranks of one process have nodes of the same names
        keys = [one.name for one in reached if one.type in _NOTED]
    return StepMessages(
        collectives=tuple(collectives),
        exchanges=tuple(
            name[: -len(IDS)] for name in names if name.startswith(_OURS) and name.endswith(IDS)
        ),
        keys=tuple(keys),
        nodes=frozenset(operation.name for operation in reached),
        given=given,
    )


def _key_in_process(operation: Any) -> str:
    group = tf.compat.as_str(operation.get_attr("group"))
    return "{}/{}/{}".format(group, operation.get_attr("rank"), message_of(operation))


def _reached(operations: List[Any], feeds: Sequence[Any]) -> Set[Any]:
    """All operations that running these may run."""
    fed = {tensor.name for tensor in feeds}
    reached = set(operations)
    waiting = list(reached)
    while waiting:
        operation = waiting.pop()
        behind = [tensor.op for tensor in operation.inputs if tensor.name not in fed]
        for other in behind + list(operation.control_inputs):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
