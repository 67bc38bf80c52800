"""What calls of functions compute (tf.function, v2 control flow), as nodes beside the graph.

    ids ─> StatefulPartitionedCall(f) ─> ...        the call, which stays
    ids ─> [call/f/gather ─> call/f/sum] ─> call    its body, which reads what the call reads

Bodies have bodies in turn.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from graph_opt.compat.function_bodies import free_scope, partial_body
from graph_opt.compat.op_definitions import may_call_functions

LOOPS = frozenset(["While", "StatelessWhile", "For"])
"""Ops whose bodies run for each iteration."""
CONDITIONALS = frozenset(["If", "StatelessIf", "Case", "StatelessCase"])
"""Ops that run one of their bodies."""

# Call ops whose first inputs are not arguments of their functions.
_ARGUMENTS_START = {**dict.fromkeys([*CONDITIONALS, "RemoteCall"], 1), "For": 3}


class Call(NamedTuple):
    """What a node calls with its own inputs.

    Attributes:
      functions: Names of the functions, of which a conditional runs one.
      start: Which input of the node is argument 0.
    """

    functions: Tuple[str, ...]
    start: int


def call_of(node: Any, library: Mapping[str, Any]) -> Optional[Call]:
    """The functions a node calls with its own inputs, or None; datasets call none that way."""
    if node.op in library:
        return Call((node.op,), 0)
    if not node.attr or node.op.endswith(("Dataset", "DatasetV2", "DatasetV3", "Iterator")):
        return None
    functions: List[str] = []
    for key in sorted(node.attr):
        value = node.attr[key]
        kind = value.WhichOneof("value")
        if kind == "func":
            functions.append(value.func.name)
        if kind == "list" and value.list.func:
            functions.extend(function.name for function in value.list.func)
    known = tuple(function for function in functions if function in library)
    return Call(known, _ARGUMENTS_START.get(node.op, 0)) if known else None


def largest_branch(node: Any, library: Mapping[str, Any]) -> Optional[Call]:
    """As `call_of`, but of a conditional only the function with most nodes."""
    call = call_of(node, library)
    if call is None or node.op not in CONDITIONALS:
        return call
    largest = max(call.functions, key=lambda name: len(library[name].node_def))
    return call._replace(functions=(largest,))


class _Waiting(NamedTuple):
    """A call whose bodies are to be added, and the functions that it is in."""

    node: Any
    functions: Tuple[str, ...]


class CalledBodies:
    """The bodies of all calls of a graph, outer ones first.

    Args:
      graph_def: A GraphDef of any file; not changed.
      most_nodes: Bodies that would make it more nodes are left out.
      called: Tells which functions of the library a node calls, or None.
      scope: What names of a body's nodes begin with, made of the call and the function.

    Attributes:
      nodes: NodeDefs by name; devices that they do not request are those of their calls.
      calls: For each of these nodes the call whose body it is in.
      callers: For each of these nodes the node of the graph that calls it, itself or by others.
      results: For each call the tensors that its first function returns.
      others: For each call the nodes that it waits for beside these: other functions' results, and
        what has effects.
      iterated: Nodes of bodies that run for each iteration of a loop.
      left_out: Calls without bodies: functions that call themselves, or are too large.
    """

    def __init__(
        self,
        graph_def: Any,
        most_nodes: int = 1 << 30,
        called: Callable[[Any, Mapping[str, Any]], Optional[Call]] = call_of,
        scope: str = "{}/{}",
    ) -> None:
        self.nodes: Dict[str, Any] = {}
        self.calls: Dict[str, str] = {}
        self.callers: Dict[str, str] = {}
        self.results: Dict[str, List[str]] = {}
        self.others: Dict[str, List[str]] = {}
        self.iterated: Set[str] = set()
        self.left_out: List[str] = []
        self._library = {one.signature.name: one for one in graph_def.library.function}
        self._signatures = {name: one.signature for name, one in self._library.items()}
        self._most_nodes = most_nodes
        self._called = called
        self._scope = scope
        self._is_call: Dict[str, bool] = {}
        if self._library:
            self._add_all(graph_def)

    def _add_all(self, graph_def: Any) -> None:
        names = {node.name for node in graph_def.node}
        waiting = deque(_Waiting(node, ()) for node in graph_def.node if self._may_call(node))
        while waiting:
            self._add(waiting.popleft(), names, waiting)

    def _may_call(self, node: Any) -> bool:
        op = node.op
        if op not in self._is_call:
            self._is_call[op] = op in self._library or may_call_functions(op)
        return self._is_call[op]

    def _add(self, waited: _Waiting, names: Set[str], waiting: Deque[_Waiting]) -> None:
        node = waited.node
        called = self._called(node, self._library)
        if called is None:
            return
        functions = list(dict.fromkeys(called.functions))
        size = sum(len(self._library[name].node_def) for name in functions)
        if len(self.nodes) + size > self._most_nodes or set(functions) & set(waited.functions):
            self.left_out.append(node.name)
            return
        given = [text for text in node.input if not text.startswith("^")]
        for function in functions:
            added = self._add_body(node, function, given[called.start :], names)
            inner = (*waited.functions, function)
            waiting.extend(_Waiting(each, inner) for each in added if self._may_call(each))

    def _add_body(self, call: Any, function: str, given: List[str], names: Set[str]) -> List[Any]:
        """Adds what a call has in one of its functions, and returns it."""
        name, definition = call.name, self._library[function]
        scope = free_scope(self._scope.format(name, function), definition, names)
        body = partial_body(definition, given, scope, self._signatures)
        in_loop = name in self.iterated or call.op in LOOPS
        for node in body.nodes:
            node.device = node.device or call.device
            names.add(node.name)
            self.nodes[node.name] = node
            self.calls[node.name] = name
            self.callers[node.name] = self.callers.get(name, name)
            if in_loop:
                self.iterated.add(node.name)
        others = self.others.setdefault(name, [])
        others.extend(body.controls)
        if name in self.results:
            others.extend(text.partition(":")[0] for text in body.results)
        else:
            self.results[name] = body.results
        return body.nodes
