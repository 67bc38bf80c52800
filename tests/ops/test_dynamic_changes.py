"""What checkpoints need of dynamic tables: builds and runs `dynamic_changes_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TEST = "dynamic_changes_test.cc"


@pytest.fixture(scope="module")
def program(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, TEST, QUICK)


def test_dynamic_changes(program: Path) -> None:
    run(program)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_dynamic_changes_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))
