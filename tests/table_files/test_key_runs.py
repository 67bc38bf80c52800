"""Keys in the order in which files have them."""

from __future__ import annotations

from typing import List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.table_files.key_runs import KeyRuns
from tests.example_share import example_share


def orders(count: int) -> List[np.ndarray]:
    """Orders of `count` keys: by ranks, in blocks, reversed, and shuffled."""
    keys = np.arange(count)
    firsts = range(0, count, 4)
    return [
        keys,
        np.concatenate([keys[0::2], keys[1::2]]),
        np.concatenate([keys[rank::3][first : first + 4] for first in firsts for rank in range(3)]),
        keys[::-1],
        np.random.default_rng(count).permutation(keys),
    ]


@example_share(0.6)
@given(st.integers(1, 40), st.integers(0, 4), st.integers(1, 9), st.data())
def test_every_row_is_found(count: int, order: int, block: int, data: st.DataObject) -> None:
    keys = orders(count)[order]
    runs = KeyRuns(count)
    for first in range(0, count, block):
        runs.add(keys[first : first + block])
    assert runs.are_all
    first = data.draw(st.integers(0, count - 1))
    size = data.draw(st.integers(1, count - first))
    positions, found = runs.positions(first, size)
    np.testing.assert_array_equal(keys[positions], found)
    np.testing.assert_array_equal(np.sort(found), np.arange(first, first + size))


def test_other_keys_are_told_from_damage() -> None:
    others = KeyRuns(3)
    others.add(np.array([2, 7]))
    others.add(np.array([1]))
    assert not others.are_all
    twice = KeyRuns(3)
    twice.add(np.array([2, 0, 2]))
    with pytest.raises(ValueError, match="twice, and none for row 1"):
        assert twice.are_all
