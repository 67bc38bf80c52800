"""Initial values: equal whoever makes a row, and distributed as the initializer says."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.ops.initial_rows import initial_rows
from graph_opt.sharding.initializers import initial_values, values_of
from graph_opt.sharding.placement import DivRows, ModRows
from tests.example_share import example_share

SHAPE = (4000, 24)


def made(initializer: Any, keys: Any, width: int = 8, **options: Any) -> np.ndarray:
    values = values_of(initializer, SHAPE)
    rows = tf.constant(keys, tf.int64)
    options = {"dtype": tf.float32, "name": "table", **options}
    with tf.Session() as session:
        return session.run(initial_values(values, rows, width, **options))


def whole(initializer: Any) -> np.ndarray:
    return made(initializer, np.arange(SHAPE[0]), SHAPE[1])


@example_share(0.2)
@given(
    distribution=st.sampled_from(["uniform", "normal", "truncated_normal"]),
    width=st.integers(1, 11),
    column=st.integers(0, 9),
    order=st.permutations(list(range(12))),
    far=st.integers(-(2**62), 2**62),
)
def test_a_value_depends_on_its_row_and_column_alone(
    distribution: str, width: int, column: int, order: List[int], far: int
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows = np.array([far + place for place in range(12)])
        every = session.run(initial_rows(rows, 20, distribution, 0.5, 2.0, key=-3))
        some = initial_rows(rows[order], width, distribution, 0.5, 2.0, key=-3, column=column)
        np.testing.assert_array_equal(session.run(some), every[order, column : column + width])


@pytest.mark.parametrize("rule", [ModRows, DivRows])
def test_a_table_starts_the_same_on_any_number_of_ranks(rule: Any) -> None:
    alone = made("uniform", np.arange(61))
    for num_ranks in (2, 3, 16):
        divided = np.zeros_like(alone)
        for rank in range(num_ranks):
            keys = rule(61, num_ranks).keys(rank)
            divided[keys] = made("uniform", keys)
        np.testing.assert_array_equal(divided, alone)


@pytest.mark.parametrize(
    "initializer",
    [
        tf.random_uniform_initializer(-0.3, 0.2),
        tf.random_normal_initializer(0.1, 2.0),
        tf.truncated_normal_initializer(stddev=0.5),
        tf.keras.initializers.RandomNormal(stddev=0.1),
        tf.keras.initializers.he_normal(),
        tf.variance_scaling_initializer(2.0, "fan_avg", "untruncated_normal"),
        "uniform",
        None,
    ],
)
def test_values_are_distributed_as_with_tensorflow(initializer: Any) -> None:
    if isinstance(initializer, str):
        stock_initializer = tf.keras.initializers.get(initializer)
    else:
        stock_initializer = initializer or tf.glorot_uniform_initializer()
    with tf.Session() as session:
        stock = session.run(stock_initializer(SHAPE, tf.float32))
    ours = whole(initializer)
    deviation = stock.std()
    assert abs(ours.mean() - stock.mean()) < 0.02 * deviation
    np.testing.assert_allclose(ours.std(), deviation, rtol=0.02)
    quantiles = np.linspace(0, 1, 9)[1:-1]
    expected = np.quantile(stock, quantiles)
    np.testing.assert_allclose(np.quantile(ours, quantiles), expected, atol=0.03 * deviation)
    assert np.abs(ours).max() <= np.abs(stock).max() * 1.3
    assert np.unique(ours).size > 0.9 * min(ours.size, np.unique(stock).size)


@pytest.mark.parametrize(
    "initializer, value",
    [
        (tf.zeros_initializer, 0.0),
        (tf.keras.initializers.Ones(), 1.0),
        (tf.constant_initializer(0.25), 0.25),
        (3, 3.0),
    ],
)
def test_constants(initializer: Any, value: float) -> None:
    np.testing.assert_array_equal(made(initializer, [5, 1]), np.full((2, 8), value, np.float32))


def test_seeds_and_names_change_the_values() -> None:
    def seeded(seed: Any) -> Any:
        return tf.keras.initializers.RandomUniform(seed=seed)

    plain = made("uniform", [1, 2])
    np.testing.assert_array_equal(plain, made("uniform", [1, 2]))
    others = [made(seeded(4), [1, 2]), made(seeded(5), [1, 2]), made("uniform", [1, 2], name="b")]
    tf.set_random_seed(71)
    others.append(made("uniform", [1, 2]))
    for place, other in enumerate(others):
        assert all(np.abs(other - one).max() > 1e-3 for one in [plain] + others[:place])


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_narrow_types_are_rounded_from_float32(dtype: Any) -> None:
    wide = made("uniform", [1, 2, 3])
    with tf.Session() as session:
        rounded = session.run(tf.cast(wide, dtype))
    np.testing.assert_array_equal(made("uniform", [1, 2, 3], dtype=dtype), rounded)


def test_other_functions_are_left_to_the_caller() -> None:
    assert values_of(lambda shape, dtype: tf.zeros(shape, dtype), SHAPE) is None
    with pytest.raises(TypeError, match="initializer is a list"):
        values_of([1, 2], SHAPE)
