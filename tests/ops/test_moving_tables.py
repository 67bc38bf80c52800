"""Tables that move to large pages, without TensorFlow: builds and runs `moving_tables_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TEST = "moving_tables_test.cc"


@pytest.fixture(scope="module")
def program(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, TEST, QUICK)


def test_moving_tables(program: Path) -> None:
    run(program)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["undefined", "address", "thread"])
def test_moving_tables_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))
