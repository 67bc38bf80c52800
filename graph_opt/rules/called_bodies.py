"""What calls of functions compute (tf.function, v2 control flow), as nodes beside the graph.

    ids ─> StatefulPartitionedCall(f) ─> ...        the call, which stays
    ids ─> [call/f/gather ─> call/f/sum] ─> call    its body, which reads what the call reads

A node of a body is named after the call, its function, and itself. Bodies have bodies in turn.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Set, Tuple

from graph_opt.compat.function_bodies import free_scope, partial_body
from graph_opt.compat.op_definitions import may_call_functions
from graph_opt.rules.lookups.functions import PASSES_ROWS_ON, call_of
from graph_opt.rules.op_names import ROW_READERS

LOOPS = frozenset(["While", "StatelessWhile", "For"])
"""Ops whose bodies run for each iteration."""
CONDITIONALS = frozenset(["If", "StatelessIf", "Case", "StatelessCase"])
"""Ops that run one of their bodies."""

_LONGEST_READ = 64


class _Waiting(NamedTuple):
    """A call whose bodies are to be added: what it is part of, and what it is called by."""

    node: Any
    outermost: str
    functions: Tuple[str, ...]
    in_loop: bool


class CalledBodies:
    """The bodies of all calls of a graph, outer ones first.

    Args:
      graph_def: A GraphDef of any file; not changed.
      most_nodes: Bodies that would make it more nodes are left out.
      one_branch: Whether a conditional has only its largest branch.

    Attributes:
      nodes: NodeDefs by name; devices that they do not request are those of their calls.
      callers: For each of these nodes the node of the graph that calls it, itself or by others.
      results: For each call the tensors that its first function returns.
      others: For each call the nodes that it waits for beside these: other functions' results, and
        what has effects.
      iterated: Nodes of bodies that run for each iteration of a loop.
      left_out: Calls without bodies: functions that call themselves, or are too large.
    """

    def __init__(self, graph_def: Any, most_nodes: int = 1 << 30, one_branch: bool = False) -> None:
        self.nodes: Dict[str, Any] = {}
        self.callers: Dict[str, str] = {}
        self.results: Dict[str, List[str]] = {}
        self.others: Dict[str, List[str]] = {}
        self.iterated: Set[str] = set()
        self.left_out: List[str] = []
        self._library = {one.signature.name: one for one in graph_def.library.function}
        self._signatures = {name: one.signature for name, one in self._library.items()}
        self._most_nodes = most_nodes
        self._one_branch = one_branch
        self._is_call: Dict[str, bool] = {}
        if self._library:
            self._add_all(graph_def)

    def row_readers(self, graph: Mapping[str, Any]) -> Dict[Tuple[str, str], List[str]]:
        """The nodes of bodies that read rows, by the node of the graph that calls them and table.

        Args:
          graph: The graph's own NodeDefs by name.
        """
        found: Dict[Tuple[str, str], List[str]] = {}
        for name, caller in self.callers.items():
            node = self.nodes[name]
            if node.op in ROW_READERS and node.input:
                table = self._behind(node.input[0], graph)
                found.setdefault((caller, table), []).append(name)
        return found

    def _behind(self, text: str, graph: Mapping[str, Any]) -> str:
        """The node that a tensor comes from, behind what merely passes it on."""
        for _ in range(_LONGEST_READ):
            name = text.partition(":")[0]
            node = self.nodes.get(name, graph.get(name))
            if node is None or node.op not in PASSES_ROWS_ON or not node.input:
                return name
            text = node.input[0]
        return ""

    def _add_all(self, graph_def: Any) -> None:
        names = {node.name for node in graph_def.node}
        waiting = deque(
            _Waiting(node, node.name, (), False) for node in graph_def.node if self._may_call(node)
        )
        while waiting:
            self._add(waiting.popleft(), names, waiting)

    def _may_call(self, node: Any) -> bool:
        op = node.op
        if op not in self._is_call:
            self._is_call[op] = op in self._library or may_call_functions(op)
        return self._is_call[op]

    def _add(self, call: _Waiting, names: Set[str], waiting: Deque[_Waiting]) -> None:
        called = call_of(call.node, self._library)
        if called is None:
            return
        functions = list(dict.fromkeys(called.functions))
        size = sum(len(self._library[name].node_def) for name in functions)
        if len(self.nodes) + size > self._most_nodes or set(functions) & set(call.functions):
            self.left_out.append(call.node.name)
            return
        if self._one_branch and call.node.op in CONDITIONALS:
            functions = [max(functions, key=lambda each: len(self._library[each].node_def))]
        given = [text for text in call.node.input if not text.startswith("^")]
        for place, function in enumerate(functions):
            self._add_body(call, function, given[called.start :], place, names, waiting)

    def _add_body(
        self,
        call: _Waiting,
        function: str,
        given: List[str],
        place: int,
        names: Set[str],
        waiting: Deque[_Waiting],
    ) -> None:
        name, library = call.node.name, self._library
        scope = free_scope("{}/{}".format(name, function), library[function], names)
        body = partial_body(library[function], given, scope, self._signatures)
        in_loop = call.in_loop or call.node.op in LOOPS
        for node in body.nodes:
            node.device = node.device or call.node.device
            names.add(node.name)
            self.nodes[node.name] = node
            self.callers[node.name] = call.outermost
            if in_loop:
                self.iterated.add(node.name)
            if self._may_call(node):
                inner = (*call.functions, function)
                waiting.append(_Waiting(node, call.outermost, inner, in_loop))
        others = self.others.setdefault(name, [])
        others.extend(body.controls)
        if place:
            others.extend(text.partition(":")[0] for text in body.results)
        else:
            self.results[name] = body.results
