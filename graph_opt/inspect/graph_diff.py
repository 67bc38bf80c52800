"""What one graph has that another has not: added, lost and changed nodes, copies and fused ops."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Dict, Iterator, List, Tuple

from graph_opt.compat.exchange_sums import GRAPH_NUMBER
from graph_opt.passes.graph_reports import FUSED_OPS
from graph_opt.reporting.tables import counted, first_of, printable, table

# They follow from the rest of the graph, place nodes beside each other, or are of one process.
_NOT_COMPARED = frozenset(["_output_shapes", "_class", GRAPH_NUMBER])
_MOST_SHOWN = 20
_MOST_CHARACTERS = 60


@dataclasses.dataclass(frozen=True)
class NodeChange:
    """A node that both graphs have, but not alike.

    Attributes:
      node: Its name.
      part: `op`, `device`, `inputs`, or `attribute NAME`.
      before: What it was.
      after: What it is.
    """

    node: str
    part: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class GraphDiff:
    """The difference between two graphs.

    Attributes:
      same: How many nodes are alike in both.
      added: Name to op of the nodes that only the second graph has.
      lost: The same of the first graph.
      changed: What is different in nodes of both; a node may have several parts that are.
      moved: Added nodes to the nodes of the first graph that they are copies of, in a scope of
        their own, as those of a stage are.
      fused: Added nodes that do the work of several, to how many lookups, gradients or updates.
      functions: Names of functions that were added, lost or changed.
    """

    same: int
    added: Dict[str, str]
    lost: Dict[str, str]
    changed: Tuple[NodeChange, ...]
    moved: Dict[str, str]
    fused: Dict[str, int]
    functions: Tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the graphs are alike."""
        return not (self.added or self.lost or self.changed or self.functions)

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return dict(dataclasses.asdict(self), equal=self.is_empty)

    def __str__(self) -> str:
        if self.is_empty:
            return "alike, {}".format(counted(self.same, "node"))
        lines = [
            "{} added ({} of them copies that moved), {} lost, {} changed, {} alike".format(
                counted(len(self.added), "node"),
                len(self.moved),
                len(self.lost),
                len({change.node for change in self.changed}),
                self.same,
            )
        ]
        blocks = [_ops(self), _fused(self), _changes(self), _functions(self)]
        return "\n\n".join(lines + [block for block in blocks if block])


def graph_diff(before: Any, after: Any) -> GraphDiff:
    """Compares two GraphDefs by the names of their nodes; neither is changed.

    Static shapes and colocations are not compared.

    Example:
      >>> print(graph_diff(graph_def, optimized.graph_def))
      242 nodes added (131 of them copies that moved), 0 lost, 87 changed, 3146 alike
    """
    old = {node.name: node for node in before.node}
    new = {node.name: node for node in after.node}
    changed: List[NodeChange] = []
    same = 0
    for name, node in new.items():
        if name in old:
            found = [] if node == old[name] else list(_differences(old[name], node))
            changed.extend(found)
            same += not found
    added = {name: node.op for name, node in new.items() if name not in old}
    copies = {name: name.partition("/")[2] for name in added}
    return GraphDiff(
        same=same,
        added=added,
        lost={name: node.op for name, node in old.items() if name not in new},
        changed=tuple(changed),
        moved={
            name: original
            for name, original in copies.items()
            if original in old and old[original].op == added[name]
        },
        fused={name: _work(new[name]) for name, op in added.items() if op in FUSED_OPS},
        functions=tuple(sorted(_functions_that_differ(before, after))),
    )


def _differences(old: Any, new: Any) -> Iterator[NodeChange]:
    for part in ("op", "device"):
        if getattr(old, part) != getattr(new, part):
            yield NodeChange(new.name, part, getattr(old, part), getattr(new, part))
    if list(old.input) != list(new.input):
        yield NodeChange(new.name, "inputs", ", ".join(old.input), ", ".join(new.input))
    for key in sorted((set(old.attr) | set(new.attr)) - _NOT_COMPARED):
        has = key in old.attr, key in new.attr
        if has == (True, True) and old.attr[key] == new.attr[key]:
            continue
        texts = [_text(node.attr[key]) if one else "" for node, one in zip((old, new), has)]
        yield NodeChange(new.name, "attribute " + key, texts[0], texts[1])


def _text(attribute: Any) -> str:
    kind = attribute.WhichOneof("value")
    if kind == "tensor":  # As text, it may be long.
        return "a tensor of {} bytes".format(attribute.ByteSize())
    return "" if kind is None else str(getattr(attribute, kind)).replace("\n", " ").strip()


def _work(node: Any) -> int:
    """How many lookups a fused op does; for gradients and updates, of how many tables."""
    return len(node.attr["lookup_tables"].list.i) or len(node.attr["table_names"].list.s)


def _functions_that_differ(before: Any, after: Any) -> Iterator[str]:
    old = {function.signature.name: function for function in before.library.function}
    new = {function.signature.name: function for function in after.library.function}
    for name in {**old, **new}:
        if name not in old or name not in new or old[name] != new[name]:
            yield name


def _ops(diff: GraphDiff) -> str:
    added, lost = (collections.Counter(nodes.values()) for nodes in (diff.added, diff.lost))
    ops = sorted({**added, **lost}, key=lambda op: (-added[op] - lost[op], op))
    rows = [[op, added[op], lost[op]] for op in ops]
    return table(["op", "added", "lost"], rows) if rows else ""


def _fused(diff: GraphDiff) -> str:
    rows = [[name, diff.added[name], work or "?"] for name, work in diff.fused.items()]
    return table(["fused op", "op", "does the work of"], rows) if rows else ""


def _changes(diff: GraphDiff) -> str:
    rows = [
        [change.node, change.part, _short(change.before), _short(change.after)]
        for change in diff.changed[:_MOST_SHOWN]
    ]
    if not rows:
        return ""
    text = table(["changed", "part", "before", "after"], rows)
    more = len(diff.changed) - len(rows)
    return text + ("\nand {} more; --json has all".format(more) if more else "")


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _functions(diff: GraphDiff) -> str:
    if not diff.functions:
        return ""
    names = [printable(name) for name in diff.functions]
    return "functions that differ: " + first_of(names, _MOST_SHOWN)
