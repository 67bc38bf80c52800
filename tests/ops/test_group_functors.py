"""The functors of group lookups without TensorFlow: builds and runs `group_functors_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import (
    HEADER_ROOMS,
    OPS_SRC,
    QUICK,
    SANITIZERS,
    build,
    is_valid,
    run,
    sanitized,
)

TEST = "group_functors_test.cc"


@pytest.fixture(scope="module")
def program(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, TEST, QUICK)


def test_group_functors(program: Path) -> None:
    run(program, "20")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_group_functors_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST, sanitized(sanitizer)))


@pytest.mark.slow
def test_functors_are_cpp_14(compiled_once: MadeOnce) -> None:
    headers = [path for room in HEADER_ROOMS for path in sorted((OPS_SRC / room).glob("*.h"))]
    sources = [path for path in headers if not path.stem.endswith("_compiled")]
    sources.append(OPS_SRC / "rows" / "row_kernels_portable.cc")
    text = "".join('#include "{}"\n'.format(path) for path in sources)
    assert is_valid(text, compiled_once, "-std=c++14")


@pytest.mark.parametrize(
    "planted",
    [
        "struct Pair { int a; int b; };\nint f(Pair pair) { auto [a, b] = pair; return a + b; }",
        '#include "tensorflow/core/framework/types.h"',
        '#include "kernels/lookup/columns.h"',
    ],
)
def test_newer_cpp_and_tensorflow_are_found(compiled_once: MadeOnce, planted: str) -> None:
    assert not is_valid(planted, compiled_once, "-std=c++14")
