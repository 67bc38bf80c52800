"""The functors of packed lookups without TensorFlow: builds and runs `packed_functors_test.cc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.ops.test_group_functors import QUICK, build, run, sanitized

TEST = "packed_functors_test.cc"
PACKED = (
    "packed/packed_bags.cc",
    "packed/row_request.cc",
    "packed/row_update.cc",
    "packed/server_pooling.cc",
    "packed/unique_rows.cc",
)


def test_packed_functors(made_once: MadeOnce, tmp_path: Path) -> None:
    run(build(made_once, tmp_path / "test", QUICK, TEST, PACKED))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_packed_functors_under_a_sanitizer(
    made_once: MadeOnce, tmp_path: Path, sanitizer: str
) -> None:
    run(build(made_once, tmp_path / "test", sanitized(sanitizer), TEST, PACKED))
