"""NodeDefs of a stage: its turns, and the ops that control its buffer."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.ops.stage_spec import CAPACITY, StageSpec, buffer_attributes

BUFFER_PUT = "TensorBufferPut"
BUFFER_TAKE = "TensorBufferTake"
TURN = "TensorBufferTurn"
TURN_END = "TensorBufferTurnEnd"
TURN_BEGUN = "TensorBufferTurnBegun"
RESIZE = "TensorBufferResize"
CANCEL = "TensorBufferCancel"  # also what resumes
PUT_STATUS = "TensorBufferPutStatus"
CLOSE = "TensorBufferClose"
SIZE = "TensorBufferSize"
METRICS = "TensorBufferMetrics"
CONTROLS = (TURN, TURN_END, TURN_BEGUN, RESIZE, CANCEL, PUT_STATUS, CLOSE, SIZE, METRICS)
"""What controls a buffer, beside what puts elements and takes them."""


def place_name(spec: StageSpec) -> str:
    """Name of the node that is fed the place of a step."""
    return spec.name + "/place"


def turn_nodes(spec: StageSpec, device: str) -> List[Any]:
    """NodeDefs that begin and end a turn, for a stage whose threads draw one at a time.

    The caller adds control edges: the sources wait for the first, the second for the sources, and
    the put for the second.

    Args:
      spec: The stage.
      device: The device of the buffer.
    """
    return _turns(spec, device, place_name(spec), (TURN, TURN_END))


def exchange_spec(spec: StageSpec) -> StageSpec:
    """A buffer of which only the turns are used: in them, a stage's threads exchange messages."""
    return spec._replace(name=spec.name + "/exchange", capacity=1)


def exchange_turn_nodes(spec: StageSpec, device: str) -> List[Any]:
    """NodeDefs of the turns in which the threads of a stage exchange messages with other ranks.

    The caller adds control edges: the messages wait for the first, the second for the messages.
    Then come those of a step without a batch, which wait for nothing, a node that tells whether the
    turn of a place has begun, and nodes that fail, or reopen, all turns.

    Args:
      spec: The stage.
      device: The device of its buffer.
    """
    turns = exchange_spec(spec)
    nodes = _turns(turns, device, place_name(spec), (TURN, TURN_END))
    alone = _turns(turns, device, place_name(spec), (TURN, TURN_END, TURN_BEGUN))
    for node in alone:
        node.name = "{}/failure/{}".format(turns.name, node.op)
    return [*nodes, *alone, *_cancel_and_resume(turns, device, spec)]


def control_nodes(spec: StageSpec, device: str) -> List[Any]:
    """NodeDefs that control a buffer: status, cancel, resume, close, size, metrics, and resize.

    Only a buffer whose capacity is tuned has a resize.

    Args:
      spec: The stage whose buffer they control.
      device: The device of the buffer.

    Returns:
      The NodeDefs in topological order; they read only each other.
    """
    code = _node(spec.name + "/status_code", "Placeholder", device, _placeholder(tf.int32))
    message = _node(spec.name + "/status_message", "Placeholder", device, _placeholder(tf.string))
    no_place = _node(spec.name + "/no_place", "Const", device, _constant(np.int64(-1)))
    place = _node(place_name(spec), "PlaceholderWithDefault", device, _placeholder(tf.int64))
    place.input.append(no_place.name)
    put_status = _control(PUT_STATUS, PUT_STATUS, spec, device)
    put_status.input.extend([place.name, code.name, message.name])
    rest = [_control(op, op, spec, device) for op in (CLOSE, SIZE, METRICS)]
    return [
        code,
        message,
        no_place,
        place,
        put_status,
        *_cancel_and_resume(spec, device, spec),
        *rest,
        *(_resize(spec, device) if CAPACITY in spec.tuned else ()),
    ]


def _resize(spec: StageSpec, device: str) -> List[Any]:
    capacity = _node(spec.name + "/capacity", "Placeholder", device, _placeholder(tf.int64))
    resize = _control(RESIZE, RESIZE, spec, device)
    resize.input.append(capacity.name)
    return [capacity, resize]


def _turns(spec: StageSpec, device: str, place: str, ops: Sequence[str]) -> List[Any]:
    turns = [_control(op, op, spec, device) for op in ops]
    for node in turns:
        node.input.append(place)
    return turns


def _cancel_and_resume(spec: StageSpec, device: str, fed: StageSpec) -> List[Any]:
    """The same for a buffer and for a stage's other turns; `fed` is the stage."""
    cancel = _control(CANCEL, CANCEL, spec, device)
    cancel.input.extend([fed.name + "/status_code", fed.name + "/status_message"])
    cancel.attr["is_cancelled"].b = True
    cancel.attr["num_status"].i = 1
    resume = _control("TensorBufferResume", CANCEL, spec, device)
    resume.attr["is_cancelled"].b = False
    resume.attr["num_status"].i = 0
    resume.input.append(place_name(fed))
    resume.attr["num_places"].i = 1
    return [cancel, resume]


def _control(name: str, op: str, spec: StageSpec, device: str) -> Any:
    return _node("{}/{}".format(spec.name, name), op, device, buffer_attributes(spec))


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
