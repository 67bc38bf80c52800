"""Rows refreshed without TensorFlow: builds and runs `refresh_functors_test.cc`."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import SANITIZERS, build, run, sanitized

TEST = "refresh_functors_test.cc"


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_refresh_functors(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))
