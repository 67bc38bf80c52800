"""The functors of packed lookups without TensorFlow: builds and runs `packed_functors_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TEST = "packed_functors_test.cc"


def test_packed_functors(made_once: MadeOnce, tmp_path: Path) -> None:
    run(build(made_once, TEST, QUICK, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_packed_functors_under_a_sanitizer(
    made_once: MadeOnce, tmp_path: Path, sanitizer: str
) -> None:
    run(build(made_once, TEST, sanitized(sanitizer), tmp_path))
