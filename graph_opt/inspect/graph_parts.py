"""A graph that is read in parts, within limits: beyond them its nodes are only counted."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from typing import Any, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.inspect.large_values import shortened_node
from graph_opt.inspect.node_counts import NodeCounts
from graph_opt.inspect.wire_format import MOST_MESSAGE_BYTES
from graph_opt.reporting.counted_graph import CountedGraph

_MANY_BYTES = 256 << 20
_SMALL_VALUE_BYTES = 4 << 10


class NotAGraph(ValueError):
    """What was read are no nodes."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much of a file is kept in memory.

    Attributes:
      nodes: Nodes, those of functions included, above which they are only counted; None for any.
      value_bytes: Bytes above which a value is left out; None for any. Once nodes take 256 MiB,
        those above 4 KiB are, too.
      graph_bytes: Bytes of nodes above which they are only counted.
    """

    nodes: Optional[int] = None
    value_bytes: Optional[int] = None
    graph_bytes: int = MOST_MESSAGE_BYTES


EVERYTHING = Limits()
"""The file as it is, for whoever writes it again."""


class GraphParts:
    """Takes the parts of a graph.

    Args:
      graph_def: A GraphDef, which is filled as long as the limits allow.
      limits: How much is kept.

    Attributes:
      graph_def: The graph; empty if there are `counts`, and then another after each part.
      nodes: How many nodes were read, those of functions included.
      counts: What was counted; None as long as the graph is within the limits.
    """

    def __init__(self, graph_def: Any, limits: Limits) -> None:
        self.graph_def = graph_def
        self._limits = limits
        self._forget()

    def restart(self) -> None:
        """Forgets what was taken."""
        self.graph_def = tf.GraphDef()
        self._forget()

    def _forget(self) -> None:
        self.nodes = self._bytes = self._kept_nodes = self._kept_functions = 0
        self.counts: Optional[NodeCounts] = None

    @property
    def large(self) -> int:
        """Bytes above which a value is to be left out."""
        if self._limits.value_bytes is None:
            return sys.maxsize
        if self._bytes > _MANY_BYTES:
            return min(_SMALL_VALUE_BYTES, self._limits.value_bytes)
        return self._limits.value_bytes

    @property
    def counted(self) -> Optional[CountedGraph]:
        """What is known of the graph if it is beyond the limits."""
        return None if self.counts is None else self.counts.graph(self._limits.nodes)

    def add(self, data: bytes) -> None:
        """Takes fields of a GraphDef.

        Raises:
          NotAGraph: There is a node without a name or an op, or a function without a name.
          google.protobuf.message.DecodeError: They are no such fields.
        """
        self.graph_def.MergeFromString(data)
        self._note(len(data))

    def add_node(self, node: Any) -> None:
        """Takes a NodeDef; raises the same errors."""
        self.graph_def.node.append(node)
        self._note(node.ByteSize())

    def add_functions(self, data: bytes) -> None:
        """Takes fields of a FunctionDefLibrary; raises the same errors."""
        self.graph_def.library.MergeFromString(data)
        self._note(len(data))

    def add_function(self, function: Any) -> None:
        """Takes a FunctionDef; raises the same errors."""
        self.graph_def.library.function.append(function)
        self._note(function.ByteSize())

    def relieved(self, function: Any, size: int) -> Any:
        """A FunctionDef to go on with: one without nodes, which were counted, if it is too large.

        Args:
          function: One that is not taken yet.
          size: Its bytes.
        """
        if self.counts is None and self._is_beyond(len(function.node_def), size):
            self._begin_to_count()
        if self.counts is None:
            return function
        self.nodes += len(function.node_def)
        self.counts.add_function_nodes(function.node_def)
        # Without its nodes, a message keeps their memory.
        fresh = type(function)()
        fresh.signature.name = function.signature.name
        return fresh

    def note_added(self) -> None:
        """Takes what others have put into `graph_def`; raises the same errors."""
        size = 0
        nodes, functions = self._new()
        for node in itertools.chain(nodes, *(function.node_def for function in functions)):
            if node.ByteSize() > self.large:
                shortened_node(node, self.large)
            size += node.ByteSize()
        self._note(size)

    def _new(self) -> Tuple[Sequence[Any], Sequence[Any]]:
        """The nodes and functions that have come since the last part."""
        functions = self.graph_def.library.function[self._kept_functions :]
        return self.graph_def.node[self._kept_nodes :], functions

    def _note(self, size: int) -> None:
        nodes, functions = self._new()
        _check(nodes, functions)
        self.nodes += len(nodes) + sum(len(function.node_def) for function in functions)
        self._bytes += size
        if self.counts is not None:
            self._count(nodes, functions)
        elif self._is_beyond(0, 0):
            self._begin_to_count()
        self._kept_nodes = len(self.graph_def.node)
        self._kept_functions = len(self.graph_def.library.function)

    def _is_beyond(self, nodes: int, size: int) -> bool:
        """Whether the graph is beyond the limits with so many more nodes and bytes."""
        most = sys.maxsize if self._limits.nodes is None else self._limits.nodes
        return self.nodes + nodes > most or self._bytes + size > self._limits.graph_bytes

    def _begin_to_count(self) -> None:
        self.counts = NodeCounts()
        self._count(self.graph_def.node, self.graph_def.library.function)
        self._kept_nodes = self._kept_functions = 0

    def _count(self, nodes: Sequence[Any], functions: Sequence[Any]) -> None:
        assert self.counts is not None
        self.counts.add(nodes)
        self.counts.add_functions(functions)
        # Clearing a message keeps its memory, and each part would add to that.
        self.graph_def = tf.GraphDef()


def _check(nodes: Sequence[Any], functions: Sequence[Any]) -> None:
    # Protobuf accepts many bytes that are no graph; nodes without name or op reveal them.
    for node in nodes:
        if not (node.name and node.op):
            raise NotAGraph("a node has no name or no op")
    for function in functions:
        if not function.signature.name:
            raise NotAGraph("a function has no name")
