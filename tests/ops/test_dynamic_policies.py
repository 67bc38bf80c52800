"""Admission, eviction and row files without TensorFlow: runs `dynamic_policies_test.cc`."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build, run, sanitized

TEST = "dynamic_policies_test.cc"


def test_dynamic_policies(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, TEST, QUICK))


@pytest.mark.slow
def test_dynamic_policies_under_a_sanitizer(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, TEST, sanitized("address,undefined")))
