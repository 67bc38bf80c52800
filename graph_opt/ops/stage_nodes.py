"""NodeDefs of a stage: one buffer, what fills it, and the ops that steer it.

Everything the runner must know stands in these nodes, so that a rewritten GraphDef read from a
file can be run without anything beside it.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf

STAND_IN = "IdentityN"
TURN = "TensorBufferTurn"
TURN_END = "TensorBufferTurnEnd"
KIND_IO = "io"
KIND_PREFETCH = "prefetch"
NO_THREAD_POOL = -1
# Priorities of a stage's threads; between them are nice values.
MAINS_THREADS = -1
IDLE_PRIORITY = 20
DEFAULT_PRIORITY = IDLE_PRIORITY

_FACTS = "_stage_"
_CAPACITY = "_stage_capacity"
_TIMEOUT = "_stage_timeout_millis"


class StageFacts(NamedTuple):
    """What the runner reads from a stage's put nodes.

    Attributes:
      name: The stage's name, its buffer's shared name and its nodes' name scope.
      kind: `io` (reads and batches) or `prefetch` (runs lookups).
      threads_num: Threads that run this put.
      thread_pool: 0-based index of the session's stage subgraph thread pool; -1 is none.
      closed_codes: TensorFlow error codes that mean the end of input.
      ignored_codes: Error codes that skip a batch.
      upstream: The stage it takes from, '' if none.
      stream: DeepRec's stream id; no effect on a CPU.
      priority: How far its threads step back while the buffer holds a batch: 0 not at all, 1 to
        19 by a nice value, 20 behind all others; -1 runs its ops on the main graph's threads.
    """

    name: str
    kind: str
    threads_num: int = 1
    thread_pool: int = NO_THREAD_POOL
    closed_codes: Sequence[int] = (tf.errors.OUT_OF_RANGE,)
    ignored_codes: Sequence[int] = ()
    upstream: str = ""
    stream: int = 0
    priority: int = DEFAULT_PRIORITY


class BufferFacts(NamedTuple):
    """Attributes shared by all ops of one buffer.

    Attributes:
      shared_name: Name under which the device's resource manager keeps the buffer.
      capacity: Elements it holds at most.
      timeout_millis: Longest wait of a put or take in milliseconds; 0 is no limit.
    """

    shared_name: str
    capacity: int
    timeout_millis: int = 0


def put_attributes(facts: StageFacts) -> Dict[str, Any]:
    """AttrValues that mark a `TensorBufferPut` as the work of a stage's threads."""
    return {
        "_stage_name": _string(facts.name),
        "_stage_kind": _string(facts.kind),
        "_stage_threads": tf.AttrValue(i=facts.threads_num),
        "_stage_thread_pool": tf.AttrValue(i=facts.thread_pool),
        "_stage_closed_codes": _integers(facts.closed_codes),
        "_stage_ignored_codes": _integers(facts.ignored_codes),
        "_stage_upstream": _string(facts.upstream),
        "_stage_stream": tf.AttrValue(i=facts.stream),
        "_stage_priority": tf.AttrValue(i=facts.priority),
    }


def stand_in_attributes(put: Any) -> Dict[str, Any]:
    """AttrValues that a node in place of a stage carries: what the stage was.

    Args:
      put: A NodeDef with `put_attributes`.
    """
    attributes = {name: put.attr[name] for name in put.attr if name.startswith(_FACTS)}
    if put.attr["num_places"].i:
        # Its sources take no turns in the exported graph: one thread keeps their order.
        attributes["_stage_threads"] = tf.AttrValue(i=1)
    attributes[_CAPACITY] = put.attr["shared_capacity"]
    attributes[_TIMEOUT] = put.attr["timeout_millis"]
    return attributes


def is_stand_in(node: Any) -> bool:
    """Whether a NodeDef stands in the place of a stage."""
    return node.op == STAND_IN and _CAPACITY in node.attr


def stage_of_stand_in(node: Any) -> Tuple[StageFacts, BufferFacts]:
    """What the stage was that a NodeDef stands for; without what it took from."""
    attributes = node.attr
    name = attributes["_stage_name"].s.decode("utf-8")
    facts = StageFacts(
        name,
        attributes["_stage_kind"].s.decode("utf-8"),
        attributes["_stage_threads"].i,
        attributes["_stage_thread_pool"].i,
        tuple(attributes["_stage_closed_codes"].list.i),
        tuple(attributes["_stage_ignored_codes"].list.i),
        stream=attributes["_stage_stream"].i,
        priority=attributes["_stage_priority"].i,
    )
    return facts, BufferFacts(name, attributes[_CAPACITY].i, attributes[_TIMEOUT].i)


def buffer_attributes(buffer: BufferFacts) -> Dict[str, Any]:
    """AttrValues that name the buffer; every op of the buffer carries the same."""
    return {
        "container": _string(""),
        "shared_name": _string(buffer.shared_name),
        "shared_capacity": tf.AttrValue(i=buffer.capacity),
    }


def waiting_attributes(buffer: BufferFacts) -> Dict[str, Any]:
    """AttrValues of the two ops that wait, put and take."""
    attributes = buffer_attributes(buffer)
    attributes["timeout_millis"] = tf.AttrValue(i=buffer.timeout_millis)
    return attributes


def place_name(scope: str) -> str:
    """Name of the node that is fed the place of a step, for the buffer whose nodes stand there."""
    return scope + "/place"


def turn_nodes(scope: str, buffer: BufferFacts, device: str) -> List[Any]:
    """NodeDefs of the turns of a stage whose threads draw one at a time: begin and end.

    The caller lets the sources wait for the first, the second for the sources, and the put for the
    second, by control edges.

    Args:
      scope: Name scope of the nodes, without a trailing slash.
      buffer: The buffer that the stage fills.
      device: Where the buffer lives.
    """
    turns = [_control(scope, op, op, buffer, device) for op in (TURN, TURN_END)]
    for node in turns:
        node.input.append(place_name(scope))
    return turns


def control_nodes(scope: str, buffer: BufferFacts, device: str) -> List[Any]:
    """NodeDefs that steer a buffer: status, cancel, resume, close, size, metrics, in graph order.

    Args:
      scope: Name scope of the nodes, without a trailing slash.
      buffer: The buffer they steer.
      device: Where the buffer lives.

    Returns:
      NodeDefs whose inputs are all among them.
    """
    code = _node(scope + "/status_code", "Placeholder", device, _placeholder(tf.int32))
    message = _node(scope + "/status_message", "Placeholder", device, _placeholder(tf.string))
    no_place = _node(scope + "/no_place", "Const", device, _constant(np.int64(-1)))
    place = _node(place_name(scope), "PlaceholderWithDefault", device, _placeholder(tf.int64))
    place.input.append(no_place.name)
    put_status = _control(scope, "TensorBufferPutStatus", "TensorBufferPutStatus", buffer, device)
    put_status.input.extend([place.name, code.name, message.name])
    cancel = _control(scope, "TensorBufferCancel", "TensorBufferCancel", buffer, device)
    cancel.input.extend([code.name, message.name])
    cancel.attr["is_cancelled"].b = True
    cancel.attr["num_status"].i = 1
    resume = _control(scope, "TensorBufferResume", "TensorBufferCancel", buffer, device)
    resume.attr["is_cancelled"].b = False
    resume.attr["num_status"].i = 0
    resume.input.append(place.name)
    resume.attr["num_places"].i = 1
    rest = [
        _control(scope, op, op, buffer, device)
        for op in ("TensorBufferClose", "TensorBufferSize", "TensorBufferMetrics")
    ]
    return [code, message, no_place, place, put_status, cancel, resume] + rest


def _control(scope: str, name: str, op: str, buffer: BufferFacts, device: str) -> Any:
    return _node("{}/{}".format(scope, name), op, device, buffer_attributes(buffer))


def _node(name: str, op: str, device: str, attributes: Dict[str, Any]) -> Any:
    node = tf.NodeDef(name=name, op=op, device=device)
    for key, value in attributes.items():
        node.attr[key].CopyFrom(value)
    return node


def _placeholder(dtype: Any) -> Dict[str, Any]:
    shape = tf.TensorShape([]).as_proto()
    return {"dtype": tf.AttrValue(type=dtype.as_datatype_enum), "shape": tf.AttrValue(shape=shape)}


def _constant(value: np.generic) -> Dict[str, Any]:
    proto = tf.make_tensor_proto(value)
    return {"dtype": tf.AttrValue(type=proto.dtype), "value": tf.AttrValue(tensor=proto)}


def _string(text: str) -> Any:
    return tf.AttrValue(s=text.encode("utf-8"))


def _integers(values: Sequence[int]) -> Any:
    return tf.AttrValue(list=tf.AttrValue.ListValue(i=list(values)))
