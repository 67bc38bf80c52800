"""How far the results of two graphs are apart, and which rewrite makes the difference.

Where a difference begins is looked for among the edges that passes have moved, each of which should
carry the value of the tensor that it carried before.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.compat.tensor_keys import key_of
from graph_opt.export.users_graph import moved_inputs
from graph_opt.graph.operations import operations_behind
from graph_opt.graph.undo import MovedInput
from graph_opt.passes.name_map import NameMap
from graph_opt.reporting.value_differences import relative_difference
from graph_opt.session.compared_tensors import Pair, can_compare
from graph_opt.session.stock_graph import StockGraph

# Of the largest number of a tensor. Another order of summation changes some units in the last place
# of it, 1e-7 each in float32, to which layers add; other rows change whole parts of it.
_ALLOWED = {"float16": 2e-2, "bfloat16": 1e-1}
_ALLOWED_ELSE = 1e-4
_MOST_NAMED = 3

# Computes tensors of either graph, with values in the place of some, by their references.
Values = Callable[[Sequence[Any], Mapping[Any, Any]], List[Any]]


class Difference(NamedTuple):
    """How far a tensor is from what TensorFlow's ops compute.

    Attributes:
      name: Its name in the user's graph.
      relative: Largest difference, as a part of the largest number that the tensor has had; inf if
        shapes differ or one of the two is no number.
      allowed: What rounding may make of it.
      text: Both values, of a scalar.
    """

    name: str
    relative: float
    allowed: float
    text: str = ""

    @property
    def is_rounding(self) -> bool:
        """Whether rounding explains it."""
        return self.relative <= self.allowed

    def __str__(self) -> str:
        part = "by {:.2g} of its size".format(self.relative)
        if np.isinf(self.relative):
            part = "in shape or by what is no number"
        return "'{}' {}{}".format(self.name, part, self.text)


class Cause(NamedTuple):
    """Where a difference begins.

    Attributes:
      difference: Of the first tensor that differs.
      tables: The variables behind it.
      passes: The passes that moved its readers to another tensor.
    """

    difference: Difference
    tables: Tuple[str, ...]
    passes: Tuple[str, ...]


class Unseen(NamedTuple):
    """What may make a difference, but cannot be fetched, such as the inside of a `tf.cond`.

    Attributes:
      nodes: Some of the nodes whose inputs passes have moved there; none if nothing is known.
      passes: These passes.
    """

    nodes: Tuple[str, ...]
    passes: Tuple[str, ...]


def difference(name: str, stock: Any, main: Any, scale: float = 0.0) -> Difference:
    """Compares two values of a tensor.

    Args:
      name: Its name.
      stock: What TensorFlow's ops compute.
      main: What the rewritten graph computes.
      scale: The largest number that the tensor has had so far.
    """
    one, two = np.asarray(stock), np.asarray(main)
    allowed = 0.0
    if not (np.issubdtype(one.dtype, np.integer) or one.dtype == np.bool_):
        allowed = _ALLOWED.get(one.dtype.name, _ALLOWED_ELSE)
    relative, text = relative_difference(one, two, scale), ""
    if relative and not one.ndim and not two.ndim:
        text = ", {:.7g} instead of {:.7g}".format(float(two), float(one))
    return Difference(name, relative, allowed, text)


class MovedEdges:
    """The inputs of rewritten nodes that tensors depend on, each as built and as rewritten.

    Args:
      pairs: The tensors, which differ.
      stock: Copies of what the user built.
      values: Computes tensors.
      feeds: Tensors of either graph that are fed.
    """

    def __init__(
        self, pairs: Sequence[Pair], stock: StockGraph, values: Values, feeds: Sequence[Any]
    ) -> None:
        self._pairs = pairs
        self._values = values
        self._feeds = feeds
        self._seen: List[_Edge] = []
        self._unseen: List[MovedInput] = []
        self._search(stock)
        wanted = [tensor for one in self._seen for tensor in (one.copy, one.after)]
        computed = values(wanted, {}) if wanted else []
        self._built, self._rewritten = computed[::2], computed[1::2]

    def _search(self, stock: StockGraph) -> None:
        graph = self._pairs[0].main.graph
        main = operations_behind([pair.main.op for pair in self._pairs], self._feeds)
        built = operations_behind([pair.stock.op for pair in self._pairs], self._feeds)
        names = {operation.name for operation in main}
        known: Set[Tuple[str, str]] = set()
        for moved in moved_inputs(graph):
            before, after = (_named(graph, text) for text in (moved.before, moved.after))
            copy = stock.tensor(before)
            if moved.node not in names or (before.name, after.name) in known:
                continue
            known.add((before.name, after.name))
            if not can_compare(before, after):
                self._unseen.append(moved)
            elif copy.op in built:
                self._seen.append(_Edge(moved, copy, after))

    def cause(self, name_map: NameMap) -> Optional[Cause]:
        """The first that carries another value than before; None if all are equal within rounding.

        Args:
          name_map: Of the rewritten graph.
        """
        differing: List[Tuple[_Edge, Difference]] = []
        for edge, one, two in zip(self._seen, self._built, self._rewritten):
            found = difference(edge.copied_from, one, two)
            if not found.is_rounding:
                differing.append((edge, found))
        if not differing:
            return None
        ops = {edge.copy.op for edge, _ in differing}

        def others_before(one: Tuple[_Edge, Difference]) -> int:
            op = one[0].copy.op
            return len(ops & operations_behind([op], self._feeds) - {op})

        edge, found = min(differing, key=others_before)
        tables = tables_behind(edge.copy, self._feeds)
        return Cause(found, tables, _moved_by([edge.moved], name_map))

    def unexplained(self, name_map: NameMap) -> Optional[Unseen]:
        """Where a difference may begin that is there even if these inputs are made equal.

        Layers amplify rounding; what remains once they are given the same numbers is none of it.

        Args:
          name_map: Of the rewritten graph.

        Returns:
          None if nothing remains.
        """
        same: Dict[Any, Any] = {}
        for edge, value in zip(self._seen, self._rewritten):
            same[key_of(edge.after)] = same.setdefault(key_of(edge.copy), value)
        stock = self._values([pair.stock for pair in self._pairs], same)
        main = self._values([pair.main for pair in self._pairs], same)
        compared = [difference(*three) for three in zip(self._names(), stock, main)]
        if all(found.is_rounding for found in compared):
            return None
        nodes = tuple(dict.fromkeys(moved.node for moved in self._unseen))
        return Unseen(nodes[:_MOST_NAMED], _moved_by(self._unseen, name_map))

    def _names(self) -> List[str]:
        return [pair.name for pair in self._pairs]


class _Edge(NamedTuple):
    """An input that was moved, the tensor that it had as a copy, and the one that it has."""

    moved: MovedInput
    copy: Any
    after: Any

    @property
    def copied_from(self) -> str:
        """The tensor's name in the user's graph."""
        before = self.moved.before
        return before if ":" in before else before + ":0"


def _moved_by(edges: Sequence[MovedInput], name_map: NameMap) -> Tuple[str, ...]:
    by = [name_map.moved_by.get((edge.node, edge.slot), ()) for edge in edges]
    return tuple(dict.fromkeys(name for names in by for name in names))


def tables_behind(tensor: Any, feeds: Sequence[Any]) -> Tuple[str, ...]:
    """Names of some variables from which a tensor is computed."""
    behind = operations_behind([tensor.op], feeds)
    names = sorted(str(each.name) for each in behind if each.type in VARIABLES)
    return tuple(names[:_MOST_NAMED])


def _named(graph: Any, text: str) -> Any:
    return graph.get_tensor_by_name(text if ":" in text else text + ":0")
