"""Rows of servers that batches wait with, without TensorFlow: runs `staged_rows_test.cc`."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import SANITIZERS, build, run, sanitized

TEST = "staged_rows_test.cc"


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_staged_rows(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))
