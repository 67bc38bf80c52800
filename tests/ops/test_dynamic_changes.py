"""What dynamic tables contain and how it changes, without TensorFlow: builds and runs C++ tests."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TESTS = ["dynamic_changes_test.cc", "dynamic_contents_test.cc", "dynamic_training_test.cc"]


@pytest.mark.parametrize("test", TESTS)
def test_dynamic_changes(compiled_once: MadeOnce, test: str) -> None:
    run(build(compiled_once, test, QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_dynamic_changes_under_a_sanitizer(
    compiled_once: MadeOnce, test: str, sanitizer: str
) -> None:
    run(build(compiled_once, test, sanitized(sanitizer)))
