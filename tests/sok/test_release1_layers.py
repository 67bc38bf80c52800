"""Scripts for SparseOperationKit 1, on one rank and several."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from graph_opt.sharding.in_process import run_ranks
from tests.quick_cases import slow_but
from tests.sok import release1_model as model
from tests.sok.release1_model import BATCH, ROWS, WIDTH, Trained

CUTS = {1: [0, BATCH], 2: [0, 2, BATCH], 3: [0, 0, 4, BATCH]}  # of three ranks one has no samples


def joined(num_ranks: int, *arguments: Any, **named: Any) -> Trained:
    """What ranks have together."""
    ranks: List[Trained] = run_ranks(
        num_ranks,
        lambda transport: model.script(
            transport, arguments[0], CUTS[num_ranks], *arguments[1:], **named
        ),
    )
    rows = np.full((ROWS, WIDTH), np.nan, np.float32)
    for trained in ranks:
        rows[trained.keys] = trained.rows
        np.testing.assert_array_equal(trained.dense, ranks[0].dense)
    return Trained(np.arange(ROWS), rows, ranks[0].dense)


def assert_close(ours: Trained, theirs: Trained) -> None:
    np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(ours.dense, theirs.dense, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("num_ranks", slow_but(sorted(CUTS), max(CUTS)))
def test_a_script_trains_as_tensorflow_does_on_the_whole_batch(num_ranks: int) -> None:
    assert_close(joined(num_ranks, "adam", 30), model.stock(30))


@pytest.mark.parametrize("num_ranks", slow_but(sorted(CUTS), max(CUTS)))
def test_with_a_hash_table_all_rows_move_as_tensorflow_moves_them(num_ranks: int) -> None:
    assert_close(joined(num_ranks, "adam", 30, use_hashtable=True), model.stock(30))


@pytest.mark.parametrize(
    ("optimizer", "num_ranks"),
    [("plugin_adam", 3)]
    + [
        pytest.param(optimizer, ranks, marks=pytest.mark.slow)
        for optimizer in ("lazy_adam", "plugin_adam", "sgd")
        for ranks in CUTS
        if (optimizer, ranks) != ("plugin_adam", 3)
    ],
)
def test_with_a_hash_table_rows_train_as_without(optimizer: str, num_ranks: int) -> None:
    by_row = "sgd" if optimizer == "sgd" else "plugin_adam"
    ours = joined(num_ranks, optimizer, 30, use_hashtable=True)
    assert_close(ours, joined(1, by_row, 30))


@pytest.mark.slow
def test_two_runs_are_equal_to_the_bit() -> None:
    first, second = (joined(3, "plugin_adam", 20, use_hashtable=True) for _ in range(2))
    np.testing.assert_array_equal(first.rows, second.rows)
    np.testing.assert_array_equal(first.dense, second.dense)


@pytest.mark.parametrize("optimizer", slow_but(sorted(model.OPTIMIZERS), "adam"))
def test_optimizers_do_not_depend_on_ranks_nor_on_the_scale_of_the_loss(optimizer: str) -> None:
    alone = joined(1, optimizer, 20)
    assert_close(joined(2, optimizer, 20, scale=1024), alone)


def test_row_wise_optimizers_are_the_same_and_move_only_rows_with_gradients() -> None:
    few = joined(1, "plugin_adam", 1)
    assert_close(joined(2, "lazy_adam", 20), joined(2, "plugin_adam", 20))
    touched = np.unique(model.batch(0, 0, BATCH).values)
    untouched = np.setdiff1d(np.arange(ROWS), touched)
    assert len(untouched)
    np.testing.assert_array_equal(few.rows[untouched], model.first_rows()[untouched])
    assert np.all(few.rows[touched] != model.first_rows()[touched])
