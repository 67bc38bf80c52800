"""Deferred rows without TensorFlow: builds and runs the C++ tests of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, SANITIZERS, build, run, sanitized

SHARING = "deferred_functors_test.cc"
ACCURACY = "deferred_accuracy_test.cc"
AVERAGES = "deferred_averages_test.cc"


# Fixtures, so that the set-up compiles them.
@pytest.fixture(scope="module")
def sharing(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, SHARING, QUICK)


@pytest.fixture(scope="module")
def accuracy(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, ACCURACY, QUICK)


@pytest.fixture(scope="module")
def averages(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, AVERAGES, QUICK)


def test_deferred_rows(sharing: Path) -> None:
    run(sharing, "4")


@pytest.mark.slow
def test_deferred_steps_are_as_exact_as_tensorflow(accuracy: Path) -> None:
    run(accuracy, "1000", "8")


@pytest.mark.slow
def test_deferred_averages_are_those_of_all_steps(averages: Path) -> None:
    run(averages)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8))
def test_ten_thousand_steps_are_as_exact_as_tensorflow(accuracy: Path, first: int) -> None:
    run(accuracy, "10000", "7", str(first))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_deferred_rows_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, SHARING, sanitized(sanitizer)))
