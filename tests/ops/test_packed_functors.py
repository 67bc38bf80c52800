"""The functors of packed lookups without TensorFlow: builds and runs `packed_functors_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.test_group_functors import FUNCTORS, build, run

TEST = "packed_functors_test.cc"
PACKED = [
    *FUNCTORS,
    "packed/packed_bags.cc",
    "packed/row_request.cc",
    "packed/row_update.cc",
    "packed/server_pooling.cc",
    "packed/unique_rows.cc",
]


def test_packed_functors(tmp_path: Path) -> None:
    run(build(tmp_path, ["-O1"], TEST, PACKED))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_packed_functors_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    flags = ["-O1", "-g", "-fsanitize=" + sanitizer, "-fno-sanitize-recover=all"]
    run(build(tmp_path, flags, TEST, PACKED))
