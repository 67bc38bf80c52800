"""Admission, eviction and row files without TensorFlow, alone and at work in tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TESTS = ["dynamic_policies_test.cc", "dynamic_tiers_test.cc"]


@pytest.fixture(params=TESTS)
def program(compiled_once: MadeOnce, request: pytest.FixtureRequest) -> Path:
    return build(compiled_once, request.param, QUICK)


def test_dynamic_policies(program: Path) -> None:
    run(program)


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_dynamic_policies_under_a_sanitizer(
    compiled_once: MadeOnce, test: str, sanitizer: str
) -> None:
    run(build(compiled_once, test, sanitized(sanitizer)))
