"""Deferred rows without TensorFlow: builds and runs the C++ tests of both kinds."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

SHARING = "deferred_functors_test.cc"
ACCURACY = "deferred_accuracy_test.cc"


def test_deferred_rows(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, SHARING, QUICK))


def test_deferred_steps_are_as_exact_as_tensorflow(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, ACCURACY, QUICK))


@pytest.mark.slow
def test_ten_thousand_steps_are_as_exact_as_tensorflow(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, ACCURACY, QUICK), "10000", "0")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_deferred_rows_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, SHARING, sanitized(sanitizer)))
