"""How far the results of two graphs are apart, and which rewrite makes the difference."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from graph_opt.compat.graph_growth import is_reference
from graph_opt.compat.live_graph import is_in_control_flow
from graph_opt.compat.stateful_ops import VARIABLES
from graph_opt.export.users_graph import moved_inputs
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.translation import Translation
from graph_opt.session.shadowed_step import Pair
from graph_opt.session.stock_graph import StockGraph

# Of the largest number of a tensor. Another order of summation changes some units in the last place
# of it, 1e-7 each in float32, to which layers add; other rows change whole parts of it.
_ALLOWED = {"float16": 2e-2, "bfloat16": 1e-1}
_ALLOWED_ELSE = 1e-4
_MOST_NAMED = 3

Values = Callable[[Sequence[Any]], List[Any]]


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


def difference(name: str, stock: Any, main: Any, scale: float = 0.0) -> Difference:
    """Compares two values of a tensor.

    Args:
      name: Its name.
      stock: What TensorFlow's ops compute.
      main: What the rewritten graph computes.
      scale: The largest number that the tensor has had so far.
    """
    one, two = np.asarray(stock), np.asarray(main)
    allowed = _ALLOWED.get(one.dtype.name, _ALLOWED_ELSE)
    if one.shape != two.shape:
        return Difference(name, np.inf, allowed)
    left, right = one.astype(np.float64), two.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = float(np.where(same, 0.0, np.abs(left - right)).max(initial=0.0))
    if not apart:
        return Difference(name, 0.0, allowed)
    size = max(scale, size_of(one))
    relative = apart / size if np.isfinite(apart) and size else np.inf
    text = ", {:.7g} instead of {:.7g}".format(float(two), float(one)) if not one.ndim else ""
    return Difference(name, relative, allowed, text)


def size_of(value: Any) -> float:
    """The largest number of a value."""
    numbers = np.abs(np.asarray(value).astype(np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0.0))


def cause_of(
    pairs: Sequence[Pair],
    translation: Translation,
    stock: StockGraph,
    values: Values,
    feeds: Sequence[Any],
) -> Optional[Cause]:
    """The first tensor that differs among those that rewritten nodes read in place of others.

    Args:
      pairs: What differs.
      translation: Of the rewritten graph.
      stock: Its copies.
      values: Computes tensors of either graph.
      feeds: Tensors of either graph that are fed.

    Returns:
      None if all of these are equal within rounding, as when layers have amplified that.
    """
    graph = pairs[0].main.graph
    main = operations_behind([pair.main.op for pair in pairs], feeds)
    built = operations_behind([pair.stock.op for pair in pairs], feeds)
    names = {operation.name for operation in main}
    edges = {}
    for edge in moved_inputs(graph):
        before, after = (_named(graph, text) for text in (edge.before, edge.after))
        copy = stock.tensor(before)
        if edge.node in names and copy.op in built and _can_compare(before, after):
            edges[before.name] = edge, copy, after
    computed = values([each for _, copy, after in edges.values() for each in (copy, after)])
    differing: Dict[str, Difference] = {}
    for name, one, two in zip(edges, computed[::2], computed[1::2]):
        found = difference(name, one, two)
        if not found.is_rounding:
            differing[name] = found
    if not differing:
        return None
    behind = {name: operations_behind([edges[name][1].op], feeds) for name in differing}
    ops = {name: edges[name][1].op for name in differing}
    first = min(differing, key=lambda name: _later_than(name, behind, ops))
    edge = edges[first][0]
    return Cause(
        differing[first],
        tables_behind(edges[first][1], feeds),
        translation.moved_by.get((edge.node, edge.slot), ()),
    )


def tables_behind(tensor: Any, feeds: Sequence[Any]) -> Tuple[str, ...]:
    """Names of some variables from which a tensor is computed."""
    behind = operations_behind([tensor.op], feeds)
    names = sorted(str(each.name) for each in behind if each.type in VARIABLES)
    return tuple(names[:_MOST_NAMED])


def _later_than(name: str, behind: Dict[str, Set[Any]], ops: Dict[str, Any]) -> int:
    """How many of the tensors come before this one."""
    return sum(other != name and ops[other] in behind[name] for other in ops)


def _can_compare(before: Any, after: Any) -> bool:
    is_plain = before.dtype.is_floating and not is_reference(before) and not is_reference(after)
    return bool(is_plain and not is_in_control_flow(before.op))


def _named(graph: Any, text: str) -> Any:
    return graph.get_tensor_by_name(text if ":" in text else text + ":0")
