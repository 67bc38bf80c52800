"""What is told of a graph that is too large to be looked into, as data for people."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from graph_opt.reporting.tables import bytes_text, counted, shape_text, table

_MOST_SHOWN = 15


@dataclasses.dataclass(frozen=True)
class LargeNode:
    """One of the largest variables or constants.

    Attributes:
      node: Its name, of which 200 characters at most.
      bytes: Bytes of a variable, 0 if its shape is not known; of a constant, those in the file.
      shape: Shape of a variable, with None for an unknown dimension; None if the rank is unknown.
    """

    node: str
    bytes: int
    shape: Optional[Tuple[Optional[int], ...]] = None


@dataclasses.dataclass(frozen=True)
class CountedGraph:
    """A graph beyond the limits, whose nodes were counted as they were read.

    Attributes:
      nodes: How many it has, without those of functions.
      functions: How many functions.
      function_nodes: How many nodes these have.
      limit: Nodes, those of functions included, above which they are only counted; None if it is
        for its bytes.
      ops: Nodes by op, those of functions included; the most frequent first, as below.
      devices: Nodes by the device that they ask for.
      scopes: Nodes by outermost name scope.
      variables: How many variables.
      variable_bytes: What they take, as far as their shapes are known.
      largest_variables: The twenty largest.
      constants: How many constants.
      constant_bytes: What they take in the file.
      largest_constants: The twenty largest.
    """

    nodes: int
    functions: int
    function_nodes: int
    limit: Optional[int]
    ops: Mapping[str, int]
    devices: Mapping[str, int]
    scopes: Mapping[str, int]
    variables: int
    variable_bytes: int
    largest_variables: Tuple[LargeNode, ...]
    constants: int
    constant_bytes: int
    largest_constants: Tuple[LargeNode, ...]

    @property
    def reason(self) -> str:
        """Why it was only counted, and what would have it looked into."""
        if self.limit is None or self.nodes + self.function_nodes <= self.limit:
            return "its nodes take more memory than graph-opt gives to a graph"
        return "more than --max-nodes {:,}".format(self.limit)

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return dataclasses.asdict(self)


def counted_text(graph: CountedGraph, title: str) -> str:
    """Tables for people.

    Args:
      graph: What was counted.
      title: What the graph is called.
    """
    found = [
        "{}: {:,} nodes, and {:,} in {}".format(
            title, graph.nodes, graph.function_nodes, counted(graph.functions, "function")
        ),
        "not looked into, only counted: {}".format(graph.reason),
    ]
    blocks = [
        "\n".join(found),
        _counts("op", graph.ops),
        _counts("outermost scope", graph.scopes),
        _counts("device", graph.devices),
        _largest("variable", graph.variables, graph.variable_bytes, graph.largest_variables),
        _largest("constant", graph.constants, graph.constant_bytes, graph.largest_constants),
    ]
    return "\n\n".join(block for block in blocks if block)


def _counts(what: str, counts: Mapping[str, int]) -> str:
    shown = list(counts.items())[:_MOST_SHOWN]
    rows: List[List[Any]] = [[name or "(none)", count] for name, count in shown]
    if len(counts) > len(shown):
        rest = sum(counts.values()) - sum(count for _, count in shown)
        rows.append(["{:,} others".format(len(counts) - len(shown)), rest])
    return table([what, "nodes"], rows) if rows else ""


def _largest(what: str, count: int, size: int, nodes: Sequence[LargeNode]) -> str:
    if not count:
        return ""
    rows = [
        [one.node, *([shape_text(one.shape)] if what == "variable" else []), bytes_text(one.bytes)]
        for one in nodes[:_MOST_SHOWN]
    ]
    header = ["largest of {}".format(counted(count, what))]
    header += ["shape"] if what == "variable" else []
    return table([*header, "{} in all".format(bytes_text(size))], rows)
