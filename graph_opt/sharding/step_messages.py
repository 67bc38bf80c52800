"""Which messages a step sends to other ranks."""

from __future__ import annotations

from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from graph_opt.compat import tf
from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.step_calls import failed_node
from graph_opt.compat.variable_ops import TAKES_GRADIENTS, is_use
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW, OUT_OF_CONTROL_FLOW
from graph_opt.graph.operations import operations_behind
from graph_opt.ops.message_names import ALL_TO_ALL, IDS_SUFFIX, sent_name
from graph_opt.ops.sent_messages import REQUESTS, times_sent
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE
from graph_opt.ops.stage_spec import StageSpec, has_spec, spec_of
from graph_opt.sharding.table_gradients import reduction_fault

ENDS = (tf.errors.OUT_OF_RANGE, tf.errors.CANCELLED)
"""Codes with which a step ends that gets no batch any more."""
_HOROVOD = "Horovod"
# Nodes of Horovod that send nothing.
_SILENT = (
    *("HorovodSize", "HorovodRank", "HorovodLocalSize", "HorovodLocalRank"),
    "HorovodProcessSetIncluded",
)
_OURS = "graph_opt_"
_MAX_CACHED_STEPS = 512


class Message(NamedTuple):
    """A message of ours.

    Attributes:
      name: Its name.
      key: For `times_sent`.
    """

    name: str
    key: str


class ExchangingStage(NamedTuple):
    """A stage whose threads send messages.

    Attributes:
      spec: The stage.
      operations: What its threads run.
      messages: What they send, in the order in which they do.
    """

    spec: StageSpec
    operations: FrozenSet[Any]
    messages: Tuple[Message, ...]


class StepMessages(NamedTuple):
    """What a step sends.

    Attributes:
      operations: All nodes that it may run, if it sends anything or takes from a stage that does.
      collectives: Those that send something.
      messages: Our messages among these, in the order in which it sends them.
      exchanges: Names of the exchanges whose ids it sends before it waits for any rank.
      joined: Those that send their ids together: all of them, or none if a step may skip some.
      stages: The stages that send messages and from which it takes.
      trains: Whether it updates variables.
      fault: Why it must not run; None if it may.
      given: The elements that it was made for, kept alive so that no other reuses their ids.
      compared_by: Those that have compared it with what other ranks send.
    """

    operations: FrozenSet[Any]
    collectives: Tuple[Any, ...]
    messages: Tuple[Message, ...]
    exchanges: Tuple[str, ...]
    joined: Tuple[str, ...]
    stages: Tuple[ExchangingStage, ...]
    trains: bool
    fault: Optional[str]
    given: Tuple[Any, ...]
    compared_by: Set[Any]

    def sent(self) -> List[int]:
        """How often each of `messages` was sent so far."""
        return [times_sent(message.key) for message in self.messages]

    def may_take_again(self, error: tf.errors.OpError) -> bool:
        """Whether the step only got no batch: other errors of a stage tell of their rank."""
        if error.error_code in ENDS:
            return True
        node = failed_node(error)
        kinds = [operation.type for operation in self.operations if operation.name == node]
        late = error.error_code == tf.errors.DEADLINE_EXCEEDED
        return late and (not kinds or kinds[0] == BUFFER_TAKE)

    def unsent_after(self, failed: str) -> List[str]:
        """Collectives at which other ranks wait, whatever `exchanges` are told, for this one.

        Args:
          failed: Name of the node that has failed here before a message was sent.
        """
        told = {exchange + IDS_SUFFIX for exchange in self.exchanges}
        found = []
        for collective in self.collectives:
            behind = operations_behind([collective]) & self.operations
            is_told = any(is_collective(one) and name_of(one) in told for one in behind)
            if not is_told and any(one.name == failed for one in behind):
                found.append(name_of(collective))
        return found


_Steps = Dict[Tuple[int, ...], StepMessages]


def messages_of(
    graph: Any, fetches: Sequence[Any], targets: Sequence[Any], feeds: Sequence[Any]
) -> StepMessages:
    """What a step sends; remembered for each set of fetches, targets and feeds."""
    given = (*fetches, None, *targets, None, *feeds)
    key = tuple(map(id, given))
    steps: _Steps = kept_with(graph, "steps that may send messages", dict)
    found = steps.get(key)
    if found is None:
        if len(steps) >= _MAX_CACHED_STEPS:
            steps.clear()
        reached = operations_behind([tensor.op for tensor in fetches] + list(targets), feeds)
        found = steps[key] = _messages(graph, reached, given)
    return found


def is_collective(operation: Any) -> bool:
    """Whether a node sends something to other ranks."""
    kind = str(operation.type)
    return kind == ALL_TO_ALL or (kind.startswith(_HOROVOD) and kind not in _SILENT)


def name_of(collective: Any) -> str:
    """The name under which a collective meets those of the other ranks."""
    name = sent_name(collective)
    if name is not None:
        return name
    attributes = collective.node_def.attr  # HorovodJoin has no such attribute
    scoped = not attributes["ignore_name_scope"].b
    return str(collective.name if scoped else collective.name.rpartition("/")[2])


def _messages(graph: Any, reached: Set[Any], given: Tuple[Any, ...]) -> StepMessages:
    collectives = sorted(filter(is_collective, reached), key=name_of)
    takes = any(operation.type == BUFFER_TAKE for operation in reached)
    stages = tuple(_stages(graph)) if takes else ()
    exchanges = _exchanges(collectives)
    return StepMessages(
        operations=frozenset(reached) if collectives or stages else frozenset(),
        collectives=tuple(collectives),
        messages=_own_messages(collectives),
        exchanges=exchanges,
        joined=_joined(collectives, exchanges),
        stages=stages,
        trains=any(is_use(operation.type, TAKES_GRADIENTS) for operation in reached),
        fault=next(filter(None, map(reduction_fault, collectives)), None),
        given=given,
        compared_by=set(),
    )


def _stages(graph: Any) -> Iterable[ExchangingStage]:
    for put in sorted(graph.get_operations(), key=lambda operation: str(operation.name)):
        if put.type != BUFFER_PUT or not has_spec(put.node_def):
            continue
        behind = operations_behind([put])
        messages = _own_messages(filter(is_collective, behind))
        if messages:
            yield ExchangingStage(spec_of(put.node_def), frozenset(behind), messages)


def _own_messages(collectives: Iterable[Any]) -> Tuple[Message, ...]:
    """Sorted by name: ids, rows, gradients of rows."""
    found = [(name_of(one), _key(one)) for one in collectives]
    return tuple(sorted(Message(name, key) for name, key in found if key))


def _key(collective: Any) -> Optional[str]:
    """What the message of a node of ours is counted under."""
    name = sent_name(collective)
    if name is None:
        return None
    group = tf.compat.as_str(collective.get_attr("group"))
    return "{}/{}/{}".format(group, collective.get_attr("rank"), name)


def _exchanges(collectives: Sequence[Any]) -> Tuple[str, ...]:
    """Those that can be told of an error in place of ids; none if some lookups can not."""
    found = []
    for one in collectives:
        name = name_of(one)
        if not (name.startswith(_OURS) and name.endswith(IDS_SUFFIX)):
            continue
        if one.inputs[0].op.type != REQUESTS:
            return ()
        # Ranks that are told of an error by one exchange never come to those that follow from it.
        if not any(is_collective(other) for other in operations_behind([one]) - {one}):
            found.append(name[: -len(IDS_SUFFIX)])
    return tuple(found)


def _joined(collectives: Sequence[Any], exchanges: Tuple[str, ...]) -> Tuple[str, ...]:
    ids = {name + IDS_SUFFIX for name in exchanges}
    skipped = any(_may_be_skipped(one) for one in collectives if name_of(one) in ids)
    return () if skipped else exchanges


def _may_be_skipped(operation: Any) -> bool:
    """Whether a node is in a branch of a `tf.cond`, or in a loop, of the graph."""
    seen = {operation}
    waiting = [operation]
    while waiting:
        one = waiting.pop()
        if one.type in INTO_CONTROL_FLOW:
            return True
        if one.type in OUT_OF_CONTROL_FLOW:
            continue
        above = {*(tensor.op for tensor in one.inputs), *one.control_inputs} - seen
        seen |= above
        waiting += above
    return False
