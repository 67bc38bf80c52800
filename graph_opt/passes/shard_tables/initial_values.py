"""What initial values are, as far as a rank can make its rows of them without making all.

Const of one number, Fill                              that number
AddV2(Mul(RandomUniform, Sub(max, min)), min)          numbers that are drawn row by row,
AddV2(Mul(RandomStandardNormal, deviation), mean)      which are not those of TensorFlow
AddV2(Mul(TruncatedNormal, deviation), mean)
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.op_names import ADDS

_DISTRIBUTIONS = {
    "RandomUniform": "uniform",
    "RandomStandardNormal": "normal",
    "TruncatedNormal": "truncated_normal",
}
_SUMS = ("Add", *ADDS)


class Drawn(NamedTuple):
    """A distribution, as `graph_opt.ops.initial_rows` draws from it.

    Attributes:
      distribution: Its name.
      first: Lower bound, or mean.
      second: Upper bound, or standard deviation.
      seeds: Those of TensorFlow's op.
    """

    distribution: str
    first: float
    second: float
    seeds: Tuple[int, int]


def one_number(view: GraphView, value: TensorRef) -> Optional[Any]:
    """The number that a tensor has in all its elements, as an array scalar; None if it may not."""
    source = view.through_identity(value)
    op = view.op(source.node)
    if op == "Fill":
        number = view.constant(view.inputs(source.node)[1])
        return None if number is None else number.reshape(())
    if op != "Const":
        return None
    proto = view.nodes[source.node].attr["value"].tensor
    if proto.tensor_content or not proto.tensor_shape.dim:
        return None
    first = type(proto)()
    first.CopyFrom(proto)
    del first.tensor_shape.dim[:]
    try:
        return tf.make_ndarray(first)
    except ValueError:  # it has several numbers
        return None


def drawn(view: GraphView, value: TensorRef) -> Optional[Drawn]:
    """The distribution that a tensor is drawn from; None if it is not known."""
    added = _operands(view, value, _SUMS)
    product = None if added is None else _operands(view, added[0], ("Mul",))
    if added is None or product is None:
        return None
    source = view.through_identity(product[0])
    distribution = _DISTRIBUTIONS.get(view.op(source.node))
    offset, scale = _number(view, added[1]), _number(view, product[1])
    if distribution is None or offset is None or scale is None:
        return None
    seed, seed2 = (view.attribute(source.node, key) for key in ("seed", "seed2"))
    seeds = (int(seed.i) if seed else 0, int(seed2.i) if seed2 else 0)
    second = offset + scale if distribution == "uniform" else scale
    return Drawn(distribution, offset, second, seeds)


def _operands(
    view: GraphView, tensor: TensorRef, ops: Tuple[str, ...]
) -> Optional[Tuple[TensorRef, ...]]:
    source = view.through_identity(tensor)
    return view.inputs(source.node)[:2] if view.op(source.node) in ops else None


def _number(view: GraphView, tensor: TensorRef) -> Optional[float]:
    """A constant scalar, or the difference of two."""
    value = view.constant(tensor)
    if value is not None:
        return float(np.asarray(value).reshape(())) if np.size(value) == 1 else None
    both = _operands(view, tensor, ("Sub",))
    if both is None:
        return None
    left, right = (_number(view, one) for one in both)
    return None if left is None or right is None else left - right
