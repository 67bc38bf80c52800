"""Dynamic tables without TensorFlow: builds and runs tests in C++."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TABLES = "dynamic_functors_test.cc"
TESTS = [
    TABLES,
    "dynamic_changes_test.cc",
    "dynamic_contents_test.cc",
    "dynamic_policies_test.cc",
    "dynamic_tiers_test.cc",
    "dynamic_training_test.cc",
]


@pytest.mark.parametrize("test", TESTS)
def test_dynamic_functors(compiled_once: MadeOnce, test: str) -> None:
    run(build(compiled_once, test, QUICK))


@pytest.mark.slow
def test_ten_million_random_operations(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, TABLES, QUICK), "10000000")


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_dynamic_functors_under_a_sanitizer(
    compiled_once: MadeOnce, test: str, sanitizer: str
) -> None:
    run(build(compiled_once, test, sanitized(sanitizer)))
