"""Computing with shapes of which some dimensions are numbers of rows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.graph.view import TensorRef
from graph_opt.passes.micro_batches.shape_numbers import NotKnown, evaluate
from graph_opt.passes.micro_batches.values import Count, RowCount, array_of

ROWS = RowCount(TensorRef("batch", 0), None)
OTHER = RowCount(TensorRef("other", 0), None)
N = Count(ROWS, 1)
UNKNOWN = "unknown"


def computed(op: str, *inputs: List[Any]) -> Any:
    """The elements of the first output; `UNKNOWN` if they are not known."""
    try:
        outputs: Optional[List[Any]] = evaluate(
            op, [array_of(elements) for elements in inputs], lambda key: None
        )
    except NotKnown:
        return UNKNOWN
    assert outputs is not None
    return list(outputs[0].reshape(-1))


def times(count: int, rows: RowCount = ROWS) -> Count:
    return Count(rows, count)


@pytest.mark.parametrize(
    "op, left, right, result",
    [
        ("Mul", N, 6, times(6)),
        ("Mul", 0, N, 0),
        ("Mul", N, N, UNKNOWN),
        ("AddV2", N, N, times(2)),
        ("AddV2", N, 0, N),
        ("AddV2", N, 1, UNKNOWN),
        ("AddV2", N, times(1, OTHER), UNKNOWN),
        ("AddV2", None, 1, None),
        ("Sub", N, N, 0),
        ("Sub", times(2), N, UNKNOWN),
        ("Sub", N, 0, N),
        ("FloorDiv", times(6), 3, times(2)),
        ("FloorDiv", times(6), N, 6),
        ("FloorDiv", N, 2, UNKNOWN),
        ("FloorDiv", N, times(1, OTHER), UNKNOWN),
        ("FloorDiv", 7, 2, 3),
        ("FloorMod", 7, 4, 3),
        ("FloorMod", N, 4, UNKNOWN),
        ("Maximum", 3, 1, 3),
        ("Maximum", N, 1, N),
        ("Minimum", N, 1, UNKNOWN),
    ],
)
def test_of_two_numbers(op: str, left: Any, right: Any, result: Any) -> None:
    assert computed(op, [left], [right]) == (result if result == UNKNOWN else [result])


def test_numbers_that_are_not_known_are_shared_by_all_parts() -> None:
    assert computed("Mul", [None], [3]) == [None]
    (found,) = computed("Mul", [N], [None])
    assert (found.rows, found.times) == (ROWS, None)


def test_rows_that_are_found_to_be_the_same_are_computed_with() -> None:
    one, other = RowCount(TensorRef("a", 0), 8), RowCount(TensorRef("b", 0), 8)
    assert computed("AddV2", [Count(one, 1)], [Count(other, 1)]) == UNKNOWN
    assert one.unite(other)
    assert computed("AddV2", [Count(one, 1)], [Count(other, 1)]) == [Count(one, 2)]


def test_rows_that_are_known_to_differ_are_never_the_same() -> None:
    assert not RowCount(TensorRef("a", 0), 8).unite(RowCount(TensorRef("b", 0), 7))


_ELEMENTS = st.one_of(st.integers(0, 4), st.builds(times, st.integers(1, 4)))


def _value(element: Any, rows: int) -> int:
    if not isinstance(element, Count):
        return int(element)
    assert element.times is not None
    return element.times * rows


@given(
    op=st.sampled_from(["AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Minimum"]),
    left=_ELEMENTS,
    right=_ELEMENTS,
    rows=st.integers(1, 9),
)
def test_what_is_known_holds_for_any_number_of_rows(
    op: str, left: Any, right: Any, rows: int
) -> None:
    found = computed(op, [left], [right])
    if found == UNKNOWN or found == [None]:
        return
    functions: Dict[str, Any] = {
        "AddV2": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "FloorDiv": np.floor_divide,
        "FloorMod": np.mod,
        "Maximum": np.maximum,
        "Minimum": np.minimum,
    }
    expected = functions[op](_value(left, rows), _value(right, rows))
    assert _value(found[0], rows) == expected
