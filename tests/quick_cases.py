"""Which cases of a parametrized test are quick ones."""

from __future__ import annotations

import itertools
from typing import Any, Iterable, List, Sequence

import pytest


def slow_but(cases: Iterable[Any], *quick: Any) -> List[Any]:
    """The cases as parameters, of which only the `quick` ones are not marked slow.

    A case of several parameters is a tuple.
    """
    listed = list(cases)
    assert all(case in listed for case in quick), "a quick case is none of the cases"
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)),
            marks=() if case in quick else pytest.mark.slow,
        )
        for case in listed
    ]


def one_of_each(*values: Sequence[Any]) -> List[Any]:
    """All combinations of these values as parameters, of which few are quick.

    The quick ones show each value at least once: as many as the longest parameter has values, of
    which the first has the first value of each parameter, the second the second, and so on.

    Example:
      >>> [len(case.marks) for case in one_of_each("abc", [False, True])]
      [0, 1, 1, 0, 0, 1]
    """
    most = max(map(len, values))
    quick = {tuple(number % len(of) for of in values) for number in range(most)}
    return [
        pytest.param(
            *(of[place] for of, place in zip(values, places)),
            marks=() if places in quick else pytest.mark.slow,
        )
        for places in itertools.product(*(range(len(of)) for of in values))
    ]
