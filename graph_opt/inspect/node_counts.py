"""Nodes counted by what they are, in memory that does not grow with their number."""

from __future__ import annotations

import collections
import heapq
from typing import Any, Counter, Iterable, List, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.graph.elided_values import ELIDED
from graph_opt.reporting.counted_graph import CountedGraph, LargeNode

_MOST_DIFFERENT = 10_000
_MOST_CHARACTERS = 200
_MOST_LARGE = 20
_OTHERS = "(others)"


class NodeCounts:
    """Counts nodes by op, device and outermost scope, and notes the largest."""

    def __init__(self) -> None:
        self._nodes = self._functions = self._in_functions = 0
        self._ops: Counter[str] = collections.Counter()
        self._devices: Counter[str] = collections.Counter()
        self._scopes: Counter[str] = collections.Counter()
        self._variables = _Largest()
        self._constants = _Largest()

    def add(self, nodes: Sequence[Any]) -> None:
        """Counts nodes of the graph."""
        self._nodes += len(nodes)
        _count(self._devices, [node.device for node in nodes])
        _count(self._scopes, [node.name.partition("/")[0] for node in nodes])
        self._add_ops(nodes)

    def add_functions(self, functions: Iterable[Any]) -> None:
        """Counts functions and their nodes."""
        for function in functions:
            self._functions += 1
            self.add_function_nodes(function.node_def)

    def add_function_nodes(self, nodes: Sequence[Any]) -> None:
        """Counts nodes of a function that is counted apart."""
        self._in_functions += len(nodes)
        self._add_ops(nodes)

    def graph(self, most_nodes: Optional[int]) -> CountedGraph:
        """What was counted.

        Args:
          most_nodes: The limit that the graph is beyond; None if it takes too many bytes.
        """
        return CountedGraph(
            nodes=self._nodes,
            functions=self._functions,
            function_nodes=self._in_functions,
            limit=most_nodes,
            ops=_sorted(self._ops),
            devices=_sorted(self._devices),
            scopes=_sorted(self._scopes),
            variables=self._variables.count,
            variable_bytes=self._variables.bytes,
            largest_variables=self._variables.nodes(),
            constants=self._constants.count,
            constant_bytes=self._constants.bytes,
            largest_constants=self._constants.nodes(),
        )

    def _add_ops(self, nodes: Sequence[Any]) -> None:
        ops = [node.op for node in nodes]
        _count(self._ops, ops)
        for node, op in zip(nodes, ops):
            if op == "Const":
                self._constants.add(node.name, _constant_bytes(node), None)
            elif op in VARIABLES:
                shape = _shape(node)
                self._variables.add(node.name, _variable_bytes(node, shape), shape)


class _Largest:
    """How many nodes there are, their bytes, and which are the largest."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self._heap: List[Tuple[int, int, LargeNode]] = []

    def add(self, name: str, size: int, shape: Optional[Tuple[Optional[int], ...]]) -> None:
        self.count += 1
        self.bytes += size
        if len(self._heap) == _MOST_LARGE and size <= self._heap[0][0]:
            return
        node = LargeNode(name[:_MOST_CHARACTERS], size, shape)
        heapq.heappush(self._heap, (size, -self.count, node))
        if len(self._heap) > _MOST_LARGE:
            heapq.heappop(self._heap)

    def nodes(self) -> Tuple[LargeNode, ...]:
        return tuple(node for _, _, node in sorted(self._heap, reverse=True))


def _count(counter: Counter[str], texts: Sequence[str]) -> None:
    for text, count in collections.Counter(texts).items():
        known = text[:_MOST_CHARACTERS]
        if known not in counter and len(counter) >= _MOST_DIFFERENT:
            known = _OTHERS
        counter[known] += count


def _sorted(counter: Counter[str]) -> Any:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def _constant_bytes(node: Any) -> int:
    size: int = node.ByteSize()
    return size + (node.attr[ELIDED].i if ELIDED in node.attr else 0)


def _shape(node: Any) -> Optional[Tuple[Optional[int], ...]]:
    shape = node.attr["shape"].shape if "shape" in node.attr else None
    if shape is None or shape.unknown_rank:
        return None
    return tuple(None if one.size < 0 else one.size for one in shape.dim)


def _variable_bytes(node: Any, shape: Optional[Tuple[Optional[int], ...]]) -> int:
    """Bytes of a variable; 0 if its shape does not tell."""
    if shape is None or None in shape:
        return 0
    size = tf.as_dtype(node.attr["dtype"].type or tf.float32).size
    for length in shape:
        size *= length or 0
    return size
