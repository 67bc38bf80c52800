"""How old rows are, without TensorFlow: builds and runs `staleness_functors_test.cc`."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import build, run, sanitized

TEST = "staleness_functors_test.cc"


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["undefined", "address"])
def test_staleness_functors(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))
