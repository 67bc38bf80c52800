"""Which cases of a parametrized test are quick ones."""

from __future__ import annotations

from typing import Any, Iterable, List

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
