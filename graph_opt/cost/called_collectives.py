"""Finds the collectives of a step that are inside functions, as those of `hvd.allreduce` often are.

gradient -> If(size > 1) -> update
in its branch: argument -> [Identity] -> HorovodAllreduce
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar

from graph_opt.compat.op_definitions import may_call_functions
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookups.functions import argument_behind, call_of
from graph_opt.rules.op_names import ALL_TO_ALLS

_COLLECTIVE = re.compile(
    "^(Horovod|Collective|Nccl).*(reduce|gather|broadcast|bcast|all_?to_?all)", re.IGNORECASE
)
_GROUPED = "HorovodGrouped"
_T = TypeVar("_T")
_Given = List[Optional[int]]  # the argument that each collective is given; None if it is computed


def is_collective(op: str) -> bool:
    """Whether all ranks take part in an op; questions such as `HorovodSize` are none."""
    return op in ALL_TO_ALLS or _COLLECTIVE.match(op) is not None


def tensors_given(op: str, inputs: Sequence[_T]) -> Sequence[_T]:
    """The inputs that a collective sends, each a message: the first, or all of a group."""
    return inputs if op.startswith(_GROUPED) else inputs[:1]


def called_collectives(
    view: GraphView, names: Iterable[str]
) -> List[Tuple[str, Optional[TensorRef]]]:
    """The collectives in functions that nodes call, each with the tensor that is given to it.

    Of a conditional, those of the branch that has most; a loop's count once.

    Args:
      view: The graph.
      names: The nodes that run.

    Returns:
      The calling node, and what it passes to the collective, or None if its function computes that.
    """
    library = {function.signature.name: function for function in view.library.function}
    known: Dict[str, _Given] = {}
    found: List[Tuple[str, Optional[TensorRef]]] = []
    for name in names if library else ():
        given = _of_call(view.nodes[name], library, known)
        inputs = view.inputs(name)
        for number in given:
            is_passed = number is not None and number < len(inputs)
            found.append((name, inputs[number] if number is not None and is_passed else None))
    return found


def _of_call(node: Any, library: Dict[str, Any], known: Dict[str, _Given]) -> _Given:
    """Which inputs of a call are given to collectives."""
    if node.op not in library and not may_call_functions(node.op):
        return []
    call = call_of(node, library)
    if call is None:
        return []
    bodies = [_of_function(name, library, known) for name in call.functions]
    most = max(bodies, key=len)
    return [None if number is None else number + call.start for number in most]


def _of_function(name: str, library: Dict[str, Any], known: Dict[str, _Given]) -> _Given:
    if name in known:
        return known[name]
    known[name] = []  # A function that calls itself ends somewhere, nobody knows where.
    function = library[name]
    arguments = {each.name: number for number, each in enumerate(function.signature.input_arg)}
    nodes = {node.name: node for node in function.node_def}
    given: _Given = []
    for node in function.node_def:
        if is_collective(node.op):
            inputs = [text for text in node.input if not text.startswith("^")]
            tensors = tensors_given(node.op, inputs) or [""]
            given.extend(argument_behind(text, nodes, arguments) for text in tensors)
            continue
        for number in _of_call(node, library, known):
            passed = None if number is None or number >= len(node.input) else node.input[number]
            given.append(None if passed is None else argument_behind(passed, nodes, arguments))
    known[name] = given
    return given
