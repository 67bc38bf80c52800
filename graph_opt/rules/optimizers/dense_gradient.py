"""A gradient as large as its table, though only the rows of some IndexedSlices are not 0.

    values, indices -> UnsortedSegmentSum(values, indices, rows of the table)
    several of these -> AddN | Add
    table -> Mul(table, scalar)                     the gradient of a penalty on the whole table
    table -> Mul(Tile(scalar), Mul(scalar, table))  the same of Keras' l2 in TensorFlow 1

TensorFlow converts IndexedSlices so where a script computes with them as with a tensor, and where
it adds them to a dense gradient.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.collectives import dense_collective
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.match.table import find_read
from graph_opt.rules.op_names import ADDS, PASS_VALUES_ON

_SUMS = ("AddN", *ADDS)
_PRODUCTS = ("Mul",)
_REPEATS = ("Reshape", "Tile", "BroadcastTo")  # a number, in the gradient of a sum
_DEEPEST = 16


class DenseGradient(NamedTuple):
    """What a dense gradient is the sum of.

    Attributes:
      slices: IndexedSlices.
      decay: The factor of the table itself; 0 without a penalty on it.
    """

    slices: Tuple[Slices, ...]
    decay: float


def dense_gradient(structure: Structure, table: TensorRef, gradient: TensorRef) -> DenseGradient:
    """Takes a dense gradient of a table apart.

    Args:
      structure: Notes the nodes.
      table: The reference or handle that the update writes to.
      gradient: The gradient.

    Raises:
      Refusal: update_is_dense.
    """
    view = structure.view
    gradient = structure.through(gradient, *PASS_VALUES_ON)
    op = view.op(gradient.node)
    if op == "IdentityN":  # Keras' sum over replicas, of which there is one
        structure.seen[gradient.node] = None
        return dense_gradient(structure, table, view.inputs(gradient.node)[gradient.index])
    if op == "UnsortedSegmentSum":
        values, indices, _ = structure.inputs(gradient, op)
        return DenseGradient((Slices(values, indices),), 0.0)
    if op in _SUMS:
        parts = [dense_gradient(structure, table, part) for part in structure.inputs(gradient, op)]
        slices = tuple(one for part in parts for one in part.slices)
        return DenseGradient(slices, sum(part.decay for part in parts))
    decay = _decay(structure, table, gradient)
    if decay is None:
        collective = dense_collective(view, gradient)
        if collective is not None:
            need = "slices through the collective, which sends few rows; no sparse_as_dense"
            raise Refusal("update_is_dense", at=gradient.node, need=need, saw=collective)
        need = "the sum of gradients of lookups"
        raise Refusal("update_is_dense", at=gradient.node, need=need, saw=op)
    return DenseGradient((), decay)


def _decay(structure: Structure, table: TensorRef, gradient: TensorRef) -> Optional[float]:
    """The factor of a product with the table; None if it is anything else."""
    written = find_read(structure.view, table)
    if written is None or not structure.is_made_by(gradient, *_PRODUCTS):
        return None
    return _factor(structure, written.variable, gradient, _DEEPEST)


def _factor(
    structure: Structure, variable: str, tensor: TensorRef, deepest: int
) -> Optional[float]:
    """What a variable is multiplied by in a tensor; None if that is anything but a product."""
    view = structure.view
    read = find_read(view, tensor)
    if read is not None:
        return 1.0 if read.variable == variable else None
    if deepest == 0 or not structure.is_made_by(tensor, *_PRODUCTS):
        return None
    for of_table, other in _both_ways(view.inputs(tensor.node)):
        factor = _factor(structure, variable, of_table, deepest - 1)
        number = None if factor is None else _number(view, other, _DEEPEST)
        if factor is not None and number is not None:
            structure.inputs(tensor, *_PRODUCTS)
            return factor * number
    return None


def _both_ways(pair: Tuple[TensorRef, ...]) -> Tuple[Tuple[TensorRef, TensorRef], ...]:
    left, right = pair
    return ((left, right), (right, left))


def _number(view: GraphView, tensor: TensorRef, deepest: int) -> Optional[float]:
    """The value of a product of constants, as the gradient of a sum of losses is; or None.

    If it is a tensor, all of its elements have this value.
    """
    value = view.constant(tensor)
    if value is not None:
        return float(value.reshape(-1)[0]) if value.size == 1 else None
    op = view.op(tensor.node)
    if deepest == 0:
        return None
    if op in PASS_VALUES_ON or op in _REPEATS:  # what it waits for does not change a constant
        return _number(view, view.inputs(tensor.node)[0], deepest - 1)
    if op == "Fill":
        return _number(view, view.inputs(tensor.node)[1], deepest - 1)
    if op not in _PRODUCTS:
        return None
    factors = [_number(view, factor, deepest - 1) for factor in view.inputs(tensor.node)]
    if any(factor is None for factor in factors):
        return None
    return factors[0] * factors[1]  # type: ignore[operator]
