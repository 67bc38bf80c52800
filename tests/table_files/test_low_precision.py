"""Rows in low precision: what they stand for, and how far that is from what they were."""

from __future__ import annotations

from typing import Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.table_files.low_precision import (
    NotFinite,
    float_rows,
    low_precision_rows,
    low_precision_shape,
)

SHAPES = [(64, 16), (1, 1), (3, 7), (5, 2, 3), (9,), (0, 4)]


def random_rows(shape: Tuple[int, ...]) -> np.ndarray:
    """Numbers of all magnitudes, and rows of zeros."""
    random = np.random.RandomState(1)
    rows = random.randn(*shape) * 10.0 ** random.randint(-20, 20, [shape[0]] + [1] * len(shape[1:]))
    rows[1::5] = 0.0
    return rows.astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_at_most_half_a_scale_away(shape: Tuple[int, ...]) -> None:
    rows = random_rows(shape)
    stored = low_precision_rows(rows, tf.int8)
    assert stored.dtype == np.int8 and stored.shape == low_precision_shape(shape, tf.int8)
    flat = rows.reshape(len(rows), stored.shape[1] - 4).astype(np.float64)
    scales = np.abs(flat).max(axis=1, initial=0, keepdims=True) / 127
    apart = np.abs(float_rows(stored, shape).reshape(flat.shape) - flat)
    assert np.all(apart <= scales * (0.5 + 1e-5))


def test_int8_rounds_halves_to_even_and_keeps_the_largest() -> None:
    row = np.array([[127.0, 0.5, 1.5, -0.5, -127.0, 2.5]], np.float32)
    stored = low_precision_rows(row, tf.int8)
    assert stored[0, :4].tobytes() == np.float32(1.0).astype("<f4").tobytes()
    assert stored[0, 4:].tolist() == [127, 0, 2, 0, -127, 2]


def test_rows_of_zeros_and_of_numbers_too_small_are_zeros() -> None:
    rows = np.array([[0.0, -0.0], [1e-40, -1e-37], [1e-30, 0.0]], np.float32)
    stored = low_precision_rows(rows, tf.int8)
    assert not stored[:2].any()
    assert float_rows(stored, [3, 2])[2, 0] == pytest.approx(1e-30, rel=1e-6)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_others_are_what_tensorflow_casts_to(dtype: tf.DType) -> None:
    rows = (np.random.RandomState(2).randn(50, 7) * 100).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        expected = session.run(tf.cast(tf.cast(rows, dtype), tf.float32))
    stored = low_precision_rows(rows, dtype)
    assert stored.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(float_rows(stored, rows.shape), expected)


@pytest.mark.parametrize(
    "dtype, number", [("int8", np.nan), ("int8", -np.inf), ("float16", 7e4), ("bfloat16", np.nan)]
)
def test_what_is_not_finite_is_refused(dtype: str, number: float) -> None:
    rows = np.ones([4, 3], np.float32)
    rows[2, 1] = number
    with pytest.raises(NotFinite, match="in row 2 is not finite in " + dtype):
        low_precision_rows(rows, tf.as_dtype(dtype))
