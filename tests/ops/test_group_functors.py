"""The functors of group lookups without TensorFlow: builds and runs `group_functors_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import (
    HEADER_ROOMS,
    OPS_SRC,
    QUICK,
    build,
    is_valid,
    run,
    sanitized,
)

TEST = "group_functors_test.cc"


def test_group_functors(made_once: MadeOnce, tmp_path: Path) -> None:
    run(build(made_once, TEST, QUICK, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_group_functors_under_a_sanitizer(
    made_once: MadeOnce, tmp_path: Path, sanitizer: str
) -> None:
    run(build(made_once, TEST, sanitized(sanitizer), tmp_path))


def test_functors_are_cpp_14(made_once: MadeOnce) -> None:
    sources = [path for room in HEADER_ROOMS for path in sorted((OPS_SRC / room).glob("*.h"))]
    sources.append(OPS_SRC / "rows" / "row_kernels_portable.cc")
    text = "".join('#include "{}"\n'.format(path) for path in sources)
    assert is_valid(text, made_once, "-std=c++14")


@pytest.mark.parametrize(
    "planted",
    [
        "struct Pair { int a; int b; };\nint f(Pair pair) { auto [a, b] = pair; return a + b; }",
        '#include "tensorflow/core/framework/types.h"',
        '#include "kernels/lookup/columns.h"',
    ],
)
def test_newer_cpp_and_tensorflow_are_found(made_once: MadeOnce, planted: str) -> None:
    assert not is_valid(planted, made_once, "-std=c++14")
