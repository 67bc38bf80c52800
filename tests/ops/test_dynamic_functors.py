"""Dynamic tables without TensorFlow: builds and runs tests in C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, SANITIZERS, build, run, sanitized

TABLES = "dynamic_functors_test.cc"
TESTS = [
    TABLES,
    "dynamic_changes_test.cc",
    "dynamic_contents_test.cc",
    "dynamic_policies_test.cc",
    "dynamic_tiers_test.cc",
    "dynamic_training_test.cc",
    "row_index_test.cc",
]


@pytest.fixture(params=TESTS)  # A fixture, so that the set-up compiles them.
def program(compiled_once: MadeOnce, request: pytest.FixtureRequest) -> Path:
    return build(compiled_once, request.param, QUICK)


def test_dynamic_functors(program: Path) -> None:
    run(program)


@pytest.mark.slow
def test_ten_million_random_operations(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, TABLES, QUICK), "10000000")


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_dynamic_functors_under_a_sanitizer(
    compiled_once: MadeOnce, test: str, sanitizer: str
) -> None:
    run(build(compiled_once, test, sanitized(sanitizer)))
