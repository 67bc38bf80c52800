"""Graphs in the DOT language of Graphviz: name scopes as clusters, regions as colours."""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterator, List, Tuple

from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView
from graph_opt.passes.graph_reports import node_regions
from graph_opt.reporting.tables import printable

_COLOURS = {
    "io": "#dbeafe",
    "prefetch": "#dcfce7",
    "main": "#fef3c7",
    "none": "#ffffff",
    "idle": "#e5e7eb",
}
_MOST_DEEP = 40  # Deeper scopes are part of a node's label.


def graph_dot(graph_def: Any) -> str:
    """A digraph from left to right: a solid edge is data, a dashed one a control dependency.

    Args:
      graph_def: A GraphDef, rewritten or not.

    Returns:
      The text of a .dot file.

    Raises:
      tf.errors.InvalidArgumentError: The graph is not valid: duplicate names, missing inputs.

    Example:
      >>> graph_dot(graph_def).splitlines()[0]
      'digraph {'
    """
    view = view_of(graph_def)
    numbers = {name: number for number, name in enumerate(view.nodes)}
    lines = [
        "digraph {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];',
        '  graph [fontname="sans-serif", fontsize=10, color="#9ca3af"];',
    ]
    lines.extend(_clusters(view, numbers))
    for name, number in numbers.items():
        sources = dict.fromkeys(numbers[tensor.node] for tensor in view.inputs(name))
        lines.extend("  n{} -> n{};".format(source, number) for source in sources)
        controls = (numbers[source] for source in view.controls(name))
        lines.extend("  n{} -> n{} [style=dashed];".format(one, number) for one in controls)
    return "\n".join([*lines, "}"]) + "\n"


def _clusters(view: GraphView, numbers: Dict[str, int]) -> Iterator[str]:
    """The nodes, sorted by scope, so that each scope is opened and closed once."""
    regions = node_regions(view)
    scopes: Dict[Tuple[str, ...], List[Tuple[str, str]]] = collections.defaultdict(list)
    for name in view.nodes:
        *outer, leaf = name.split("/", _MOST_DEEP)
        scopes[tuple(outer)].append((name, leaf))
    open_scope: Tuple[str, ...] = ()
    for number, scope in enumerate(sorted(scopes)):
        shared = _shared(open_scope, scope)
        for depth in range(len(open_scope), shared, -1):
            yield "  " * depth + "}"
        for depth in range(shared, len(scope)):
            yield "{}subgraph cluster_{}_{} {{".format("  " * (depth + 1), number, depth)
            yield "{}label={};".format("  " * (depth + 2), _quoted(scope[depth]))
        for name, leaf in scopes[scope]:
            label = _quoted(leaf, view.op(name)) if leaf != view.op(name) else _quoted(leaf)
            yield '{}n{} [label={}, fillcolor="{}"];'.format(
                "  " * (len(scope) + 1), numbers[name], label, _COLOURS[regions[name]]
            )
        open_scope = scope
    for depth in range(len(open_scope), 0, -1):
        yield "  " * depth + "}"


def _shared(one: Tuple[str, ...], other: Tuple[str, ...]) -> int:
    """How many outer scopes two scopes have in common."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def _quoted(*lines: str) -> str:
    """A DOT string of these lines, whatever is in them."""
    escaped = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"{}"'.format("\\n".join(escaped))
