"""Walks over the edges of a graph, over dicts that a `GraphView` keeps by name of the source.

Most time of the passes goes into them, so they call nothing for an edge.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, Sequence, Tuple

DataUses = Mapping[str, Sequence[Tuple[int, str, int]]]
"""By source: index of the output, consumer, and number of its input."""
ControlUses = Mapping[str, Sequence[str]]


def sorted_nodes(
    missing: Dict[str, int], uses: DataUses, control_uses: ControlUses
) -> Tuple[str, ...]:
    """The nodes that no cycle precedes, each after its inputs (Kahn's algorithm).

    Args:
      missing: How many edges lead to each node; spoiled.
      uses: The data edges.
      control_uses: The control edges.
    """
    order = [name for name, count in missing.items() if count == 0]
    for name in order:
        for _, user, _ in uses.get(name, ()):
            missing[user] -= 1
            if not missing[user]:
                order.append(user)
        for user in control_uses.get(name, ()):
            missing[user] -= 1
            if not missing[user]:
                order.append(user)
    return tuple(order)


def spread(
    order: Sequence[str],
    marks: Dict[str, int],
    stops: AbstractSet[str],
    uses: DataUses,
    control_uses: ControlUses,
) -> None:
    """Adds the marks of nodes to all that can be reached from them.

    Args:
      order: The nodes, each after its inputs.
      marks: Bits by name of the node; changed in place.
      stops: Nodes that get no marks.
      uses: The data edges.
      control_uses: The control edges.
    """
    for name in order:
        mark = marks.get(name)
        if not mark:
            continue
        for _, user, _ in uses.get(name, ()):
            if user not in stops:
                marks[user] = marks.get(user, 0) | mark
        for user in control_uses.get(name, ()):
            if user not in stops:
                marks[user] = marks.get(user, 0) | mark


def reach(starts: Iterable[str], step: Callable[[str], List[str]]) -> Dict[str, None]:
    """All nodes that steps lead to from some, these included, in the order of finding them."""
    # A dict keeps insertion order; the order of a set of strings varies between processes.
    seen: Dict[str, None] = dict.fromkeys(starts)
    stack = list(seen)
    while stack:
        for following in step(stack.pop()):
            if following not in seen:
                seen[following] = None
                stack.append(following)
    return seen
