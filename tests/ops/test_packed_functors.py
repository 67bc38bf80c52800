"""The functors of packed lookups without TensorFlow: builds and runs `packed_functors_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, SANITIZERS, build, run, sanitized

TEST = "packed_functors_test.cc"


@pytest.fixture(scope="module")
def program(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, TEST, QUICK)


def test_packed_functors(program: Path) -> None:
    run(program, "15")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_packed_functors_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))
