"""Which updates of ours give TensorFlow's bits."""

from __future__ import annotations

from typing import Sequence

import pytest

from graph_opt.compat import tf
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.sharding.equal_updates import has_equal_bits
from tests.release_features import roots_are_exact

# Of these our formula has other operations.
ROUNDED = ("SparseApplyProximalAdagrad", "SparseApplyProximalGradientDescent")
# TensorFlow refines the CPU's estimate of these roots, until 2.12 by another formula than later.
RECIPROCAL_ROOTS = (
    *("SparseApplyAdadelta", "SparseApplyAdagrad"),
    *("SparseApplyCenteredRMSProp", "SparseApplyRMSProp"),
)
ROOTS = (*RECIPROCAL_ROOTS, "SparseApplyAdagradV2", "SparseApplyFtrl", "SparseApplyFtrlV2")
OPS = sorted(
    stock.op
    for spec in optimizer_specs().values()
    for stock in spec.stock_ops
    if "rows" in stock.inputs
)


@pytest.mark.parametrize("stock_op", [op for op in OPS if op not in ROOTS])
def test_all_but_proximal_updates_have_tensorflows_bits(stock_op: str) -> None:
    assert has_equal_bits(stock_op) == (stock_op not in ROUNDED)


@pytest.mark.parametrize("stock_op", ROOTS)
def test_updates_have_the_bits_of_tensorflows_roots(stock_op: str) -> None:
    assert has_equal_bits(stock_op) == (stock_op not in _rounded_roots())


def _rounded_roots() -> Sequence[str]:
    """Those that this release rounds in another way than we do."""
    if not roots_are_exact():
        return ROOTS
    return RECIPROCAL_ROOTS if tf.version.VERSION.startswith("2.12.") else ()
