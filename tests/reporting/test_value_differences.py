"""How far two values are apart, relative to the largest number there was."""

from __future__ import annotations

from typing import List

import numpy as np
import pytest

from graph_opt.reporting.value_differences import relative_difference, size_of

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    "stock, other, scale, expected",
    [
        ([1.0, 4.0], [1.0, 4.0], 0.0, 0.0),
        ([1.0, 4.0], [1.0, 5.0], 0.0, 0.25),
        ([1.0, -4.0], [1.0, -5.0], 10.0, 0.1),
        ([NAN, 2.0], [NAN, 3.0], 0.0, 0.5),
        ([NAN, INF], [NAN, INF], 0.0, 0.0),
        ([1.0, NAN], [1.0, 2.0], 0.0, INF),
        ([1.0, 2.0], [1.0, INF], 0.0, INF),
        ([0.0, 0.0], [0.0, 1e-30], 0.0, INF),
        ([1.0], [1.0, 2.0], 0.0, INF),
        ([], [], 0.0, 0.0),
    ],
)
def test_differences(stock: List[float], other: List[float], scale: float, expected: float) -> None:
    for dtype in (np.float64, np.float32, np.complex128):
        found = relative_difference(np.array(stock, dtype), np.array(other, dtype), scale)
        assert found == pytest.approx(expected)


def test_integers_and_single_numbers() -> None:
    assert relative_difference(np.array([4, 8]), np.array([4, 6])) == 0.25
    assert relative_difference(np.array(True), np.array(False)) == 1.0
    assert relative_difference(np.array(2, np.float16), np.array(3, np.float16)) == 0.5


def test_sizes() -> None:
    assert size_of([[1.0, -7.0], [NAN, INF]]) == 7.0
    assert size_of(np.array([3 + 4j])) == 5.0
    assert size_of([]) == 0.0
    assert size_of([NAN]) == 0.0
