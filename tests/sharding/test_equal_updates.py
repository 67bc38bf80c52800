"""Which updates of ours give TensorFlow's bits."""

from __future__ import annotations

import pytest

from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.sharding.equal_updates import has_equal_bits

# Of these our formula has other operations.
ROUNDED = ("SparseApplyProximalAdagrad", "SparseApplyProximalGradientDescent")
OPS = sorted(
    stock.op
    for spec in optimizer_specs().values()
    for stock in spec.stock_ops
    if "rows" in stock.inputs
)


@pytest.mark.parametrize("stock_op", OPS)
def test_all_but_proximal_updates_have_tensorflows_bits(stock_op: str) -> None:
    assert has_equal_bits(stock_op) == (stock_op not in ROUNDED)
