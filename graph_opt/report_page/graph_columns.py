"""Graphs as columns of numbers, the form in which a page has them.

A name is its scope's number and its last part, and whatever repeats (ops, devices, shapes) is a
number, too, so that a node takes some 40 bytes of JSON. The graphs before and after a rewrite share
the nodes that both have.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from graph_opt.report_page.node_text import attributes_text, outputs_text

MOST_NODES = 300_000
_MOST_ATTRIBUTES = 4 << 20
_REGIONS = {"io": "i", "prefetch": "p", "main": "m", "idle": "x", "none": "n"}
_ABSENT = "."
_MOST_DEEP = 40


class PageGraph(NamedTuple):
    """One of the graphs that a page shows.

    Attributes:
      label: What it is called there: "before" or "after".
      nodes: NodeDefs by name.
      regions: Name to region, as `node_regions` gives them.
      changes: Name to one letter: what the rewrite did to a node. Nodes without one were kept.
    """

    label: str
    nodes: Mapping[str, Any]
    regions: Mapping[str, str]
    changes: Mapping[str, str]


class Columns:
    """The nodes of all graphs of a page, numbered.

    Args:
      graphs: The graphs; nodes beyond `MOST_NODES` are left out.

    Attributes:
      total: How many nodes there are in all.
      numbers: The number of each node that the page has.
    """

    def __init__(self, graphs: Sequence[PageGraph]) -> None:
        self._graphs = graphs
        nodes: Dict[str, Any] = {}
        for graph in graphs:
            nodes.update(graph.nodes)
        self.total = len(nodes)
        names = sorted(nodes)[:MOST_NODES]
        self._nodes = [(name, nodes[name]) for name in names]
        self.numbers = {name: number for number, name in enumerate(names)}

    def to_dict(self) -> Dict[str, Any]:
        """Plain lists, strings and numbers."""
        scopes = _Scopes(name for name, _ in self._nodes)
        ops, devices, outputs = _Table(), _Table(), _Table()
        places = [scopes.place(name) for name, _ in self._nodes]
        columns: Dict[str, Any] = {
            "scope": [scope for scope, _ in places],
            "leaf": [leaf for _, leaf in places],
            "op": [ops.number(node.op) for _, node in self._nodes],
            "device": [devices.number(node.device) for _, node in self._nodes],
            "output": [outputs.number(outputs_text(node)) for _, node in self._nodes],
        }
        columns.update(self._attributes())
        columns.update(
            scopeNames=scopes.names,
            scopeParents=scopes.parents,
            ops=ops.texts,
            devices=devices.texts,
            outputs=outputs.texts,
            graphs=self._edges(),
            left_out=self.total - len(self._nodes),
        )
        return columns

    def _attributes(self) -> Dict[str, Any]:
        table, column, size = _Table(), [], 0
        for _, node in self._nodes:
            text = attributes_text(node) if size < _MOST_ATTRIBUTES else ""
            known = len(table.texts)
            column.append(table.number(text))
            size += len(text) if len(table.texts) > known else 0
        return {"attribute": column, "attributes": table.texts}

    def _edges(self) -> List[Dict[str, Any]]:
        """For each graph, which nodes it has and what they read; the first graph's, if equal."""
        found: List[Dict[str, Any]] = []
        first: Dict[int, Tuple[List[int], List[int]]] = {}
        for graph in self._graphs:
            inputs: Dict[int, List[int]] = {}
            controls: Dict[int, List[int]] = {}
            for name, node in graph.nodes.items():
                number = self.numbers.get(name)
                if number is None:
                    continue
                read = self._read_by(node)
                if first.get(number) == read:
                    continue
                inputs[number] = read[0]
                if read[1] or number in first:
                    controls[number] = read[1]
                first.setdefault(number, read)
            found.append(
                {
                    "label": graph.label,
                    "regions": self._letters(graph, graph.regions, _REGIONS),
                    "changes": self._letters(graph, graph.changes, None),
                    "inputs": _dense(inputs, len(self._nodes)) if not found else inputs,
                    "controls": controls,
                }
            )
        return found

    def _read_by(self, node: Any) -> Tuple[List[int], List[int]]:
        """Numbers of the nodes that it reads; -k after one says that it is its output k."""
        data: List[int] = []
        controls: List[int] = []
        for text in node.input:
            if text.startswith("^"):
                controls.extend(self._known(text[1:]))
                continue
            name, _, index = text.partition(":")
            known = self._known(name)
            data.extend(known)
            if known and index.isdigit() and int(index):
                data.append(-int(index))
        return data, controls

    def _known(self, name: str) -> List[int]:
        number = self.numbers.get(name)
        return [] if number is None else [number]

    def _letters(self, graph: PageGraph, given: Mapping[str, str], letters: Any) -> str:
        kept = "n" if letters else "k"
        texts = []
        for name, _ in self._nodes:
            if name not in graph.nodes:
                texts.append(_ABSENT)
                continue
            letter = given.get(name)
            texts.append(kept if letter is None else letters[letter] if letters else letter)
        return "".join(texts)


def _dense(column: Mapping[int, List[int]], length: int) -> List[Any]:
    """As a list, with 0 for what is absent."""
    return [column.get(number, 0) or 0 for number in range(length)]


class _Table:
    """Texts that repeat, numbered in the order in which they first come."""

    def __init__(self) -> None:
        self.texts: List[str] = []
        self._numbers: Dict[str, int] = {}

    def number(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


def _parts(name: str) -> Tuple[str, str]:
    """Scope and rest of a name; the rest has slashes if there are more than `_MOST_DEEP`."""
    parts = name.split("/", _MOST_DEEP)
    return "/".join(parts[:-1]), parts[-1]


class _Scopes:
    """The name scopes of a graph as a tree: number 0 is the root, parents come before children."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: List[str] = [""]
        self.parents: List[int] = [-1]
        self._numbers: Dict[str, int] = {"": 0}
        for name in names:
            self._add(_parts(name)[0])

    def place(self, name: str) -> Tuple[int, str]:
        """Scope and last part of a node's name; "" for a node that is called as a scope is."""
        if name in self._numbers:
            return self._numbers[name], ""
        scope, leaf = _parts(name)
        return self._numbers[scope], leaf

    def _add(self, scope: str) -> None:
        missing = []
        while scope not in self._numbers:
            missing.append(scope)
            scope = scope.rpartition("/")[0]
        for one in reversed(missing):
            parent, _, last = one.rpartition("/")
            self._numbers[one] = len(self.names)
            self.names.append(last)
            self.parents.append(self._numbers[parent])
