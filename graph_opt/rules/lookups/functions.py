"""Tables whose rows are read inside functions (tf.function, v2 control flow).

    VarHandleOp -> StatefulPartitionedCall(f) | If(f, g) | While(f, g)
    in f: argument -> [ReadVariableOp] -> gather | another call

Such lookups are left unchanged; this module only finds and refuses them.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from graph_opt.compat.op_definitions import may_call_functions
from graph_opt.graph.called_bodies import Call, call_of
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.table import find_read
from graph_opt.rules.op_names import ROW_READERS, WHOLE_READS

PASSES_ROWS_ON = WHOLE_READS | INTO_CONTROL_FLOW
"""Ops between a table, or a handle of it, and what reads its rows."""
_LONGEST_READ = 64

_Argument = Tuple[str, int]  # function and argument number


def refuse_lookups_in_functions(view: GraphView, forward: ForwardPart) -> List[Refusal]:
    """A refusal, lookup_in_function, for every table whose rows a called function reads."""
    library = view.functions
    if not library:
        return []
    calls: Dict[str, Call] = {}
    for name in view.of_op(*[op for op in view.ops() if op in library or may_call_functions(op)]):
        call = call_of(view.nodes[name], library)
        if call is not None:
            calls[name] = call
    if not calls:
        return []
    gathered = _gathered_arguments(library)
    refusals: List[Refusal] = []
    for name, call in calls.items():
        if forward.feeds_model(name):
            refusals.extend(_refuse_call(view, name, call, gathered))
    return refusals


def _refuse_call(view: GraphView, name: str, call: Call, gathered: Set[_Argument]) -> List[Refusal]:
    refusals: List[Refusal] = []
    for slot, tensor in enumerate(view.inputs(name)):
        readers = [f for f in call.functions if (f, slot - call.start) in gathered]
        read = find_read(view, tensor) if readers else None
        if read is not None:
            refusals.append(
                Refusal(
                    "lookup_in_function",
                    at=name,
                    need="a lookup outside tf.function, tf.cond and tf.while_loop",
                    saw="rows of table {} read in function {} of this {}".format(
                        read.variable, readers[0], view.op(name)
                    ),
                )
            )
    return refusals


def _gathered_arguments(library: Dict[str, Any]) -> Set[_Argument]:
    """Arguments whose rows are read by their function or by one that it calls."""
    gathered: Dict[_Argument, None] = {}
    passed_by: Dict[_Argument, List[_Argument]] = {}  # argument -> those it is passed on from
    for function in library.values():
        _read_body(function, library, gathered, passed_by)
    pending = list(gathered)
    while pending:
        for outer in passed_by.get(pending.pop(), ()):
            if outer not in gathered:
                gathered[outer] = None
                pending.append(outer)
    return set(gathered)


def _read_body(
    function: Any,
    library: Dict[str, Any],
    gathered: Dict[_Argument, None],
    passed_by: Dict[_Argument, List[_Argument]],
) -> None:
    owner = function.signature.name
    arguments = {arg.name: number for number, arg in enumerate(function.signature.input_arg)}
    nodes = {node.name: node for node in function.node_def}
    for node in function.node_def:
        if node.op in ROW_READERS and node.input:
            number = argument_behind(node.input[0], nodes, arguments)
            if number is not None:
                gathered[(owner, number)] = None
        call = call_of(node, library)
        if call is None:
            continue
        for slot, text in enumerate(node.input):
            number = None if text.startswith("^") else argument_behind(text, nodes, arguments)
            if number is None:
                continue
            for called in call.functions:
                passed_by.setdefault((called, slot - call.start), []).append((owner, number))


def argument_behind(text: str, nodes: Dict[str, Any], arguments: Dict[str, int]) -> Optional[int]:
    """The argument behind a function body's input `name` or `node:output:number`, if any."""
    for _ in range(_LONGEST_READ):
        name = text.partition(":")[0]
        if name in arguments:
            return arguments[name]
        node = nodes.get(name)
        if node is None or node.op not in PASSES_ROWS_ON or not node.input:
            return None
        text = node.input[0]
    return None
