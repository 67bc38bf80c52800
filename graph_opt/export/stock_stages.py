"""Removes stages that the user called: what is taken is what is put.

    runs      features -> TensorBufferPut      TensorBufferTake -> model
    leaves    features -> IdentityN -> model                       named as the take

The IdentityN carries the stage's spec as attributes, which TensorFlow ignores: a graph_opt session
that trains an imported graph restores the stage there (`passes/io_stages.py`).
"""

from __future__ import annotations

import copy
from typing import Any, Dict, List, NamedTuple, Set, Tuple

from graph_opt.graph.undo import node_of_input, remove_nodes
from graph_opt.ops.stage_nodes import (
    BUFFER_PUT,
    BUFFER_TAKE,
    CONTROLS,
    PUT_STATUS,
    RESIZE,
    TURN,
    TURN_END,
)
from graph_opt.ops.stage_spec import has_spec, spec_of, stand_in_attributes

# The user's nodes wait for these if several threads of a stage draw from them in turn.
_TURNS = (TURN, TURN_END)
_SHAPES = "_output_shapes"
_Buffer = Tuple[bytes, bytes]


class _Buffers(NamedTuple):
    """The nodes of all buffers of a graph, by buffer."""

    takes: Dict[_Buffer, List[Any]]
    puts: Dict[_Buffer, List[Any]]
    control: Dict[_Buffer, List[Any]]


def stock_stages(graph_def: Any) -> List[str]:
    """Replaces the stages of a GraphDef, in place.

    Returns:
      Lines for the user about what the replacement cannot do.
    """
    _end_turns(graph_def)
    buffers = _buffers_of(graph_def)
    lines: List[str] = []
    gone: Set[str] = set()
    for buffer, takes in buffers.takes.items():
        puts = buffers.puts.get(buffer)
        if not puts:
            continue  # Another graph fills it: nothing here has the values.
        for take in takes:
            _become_identity(take, puts[0])
        gone.update(node.name for node in puts + buffers.control.get(buffer, []))
        if len(puts) > 1:
            lines.append(_one_of_many(buffer, puts))
    if gone:
        gone |= _fed_to_controls(graph_def, gone)
        remove_nodes(graph_def, gone - _still_read(graph_def, gone))
    return lines


def _end_turns(graph_def: Any) -> None:
    """Removes the edges by which the user's nodes wait for a turn."""
    turns = {"^" + node.name for node in graph_def.node if node.op in _TURNS}
    if not turns:
        return
    for node in graph_def.node:
        kept = [text for text in node.input if text not in turns]
        if len(kept) < len(node.input):
            del node.input[:]
            node.input.extend(kept)


def _buffers_of(graph_def: Any) -> _Buffers:
    found = _Buffers({}, {}, {})
    for node in graph_def.node:
        if node.op == BUFFER_TAKE:
            found.takes.setdefault(_buffer(node), []).append(node)
        elif node.op == BUFFER_PUT:
            found.puts.setdefault(_buffer(node), []).append(node)
        elif node.op in CONTROLS:
            found.control.setdefault(_buffer(node), []).append(node)
    return found


def _buffer(node: Any) -> _Buffer:
    return node.attr["container"].s, node.attr["shared_name"].s


def _become_identity(take: Any, put: Any) -> None:
    dtypes = list(put.attr["dtypes"].list.type)
    controls = sorted({text for node in (take, put) for text in node.input if text[0] == "^"})
    # Copies, as what a message has had is gone once it has been cleared.
    has_shapes = _SHAPES in take.attr
    shapes = copy.deepcopy(list(take.attr[_SHAPES].list.shape[: len(dtypes)]))
    marks = {}
    if has_spec(put) and not spec_of(put).is_prefetch:
        marks = stand_in_attributes(spec_of(put))
    take.op = "IdentityN"
    del take.input[:]
    take.input.extend(list(put.input[: len(dtypes)]) + controls)
    take.attr.clear()
    take.attr["T"].list.type.extend(dtypes)
    if has_shapes:
        take.attr[_SHAPES].list.shape.extend(shapes)
    for key, value in marks.items():
        take.attr[key].CopyFrom(value)


def _fed_to_controls(graph_def: Any, gone: Set[str]) -> Set[str]:
    """The code, message and place of nodes that put a status, and the capacity of a resize."""
    inputs = {node.name: [node_of_input(text) for text in node.input] for node in graph_def.node}
    fed = {
        name
        for node in graph_def.node
        if node.op in (PUT_STATUS, RESIZE) and node.name in gone
        for name in inputs[node.name]
    }
    return fed | {name for reader in fed for name in inputs[reader]}


def _still_read(graph_def: Any, gone: Set[str]) -> Set[str]:
    """The removed nodes that the user's nodes read (such as a summary of a buffer's size)."""
    inputs = {node.name: [node_of_input(text) for text in node.input] for node in graph_def.node}
    waiting = [name for reader in inputs if reader not in gone for name in inputs[reader]]
    read: Set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in gone and name not in read:
            read.add(name)
            waiting.extend(inputs[name])
    return read


def _one_of_many(buffer: _Buffer, puts: List[Any]) -> str:
    return (
        "stage '{}' joins the inputs of {} threads; the exported graph reads the first thread's "
        "alone".format(buffer[1].decode("utf-8"), len(puts))
    )
