"""The instruction set that is chosen, and how a user limits it."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import FrozenSet, List

import pytest
import tensorflow as tf

import graph_opt
from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, build

NARROWEST_FIRST = ["portable", "AVX2", "AVX-512"]
LANES = {"portable": 4, "AVX2": 8, "AVX-512": 16}


def cpu_has() -> List[str]:
    """The sets of this machine, as Linux lists them."""
    flags: FrozenSet[str] = frozenset()
    if platform.machine() == "x86_64":
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        flags = frozenset(next(line for line in lines if line.startswith("flags")).split())
    avx2 = flags >= {"avx2", "f16c"}
    avx512 = avx2 and flags >= {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
    return NARROWEST_FIRST[: 1 + avx2 + avx512]


@pytest.fixture(scope="module")
def program(compiled_once: MadeOnce) -> Path:
    return build(compiled_once, "instruction_set_test.cc", QUICK)


def chosen(program: Path, limit: str) -> subprocess.CompletedProcess[str]:
    """What the program prints for rows of 4, 8 and 16 elements."""
    return subprocess.run(
        [str(program), "4", "8", "16"],
        env={"GRAPH_OPT_INSTRUCTION_SET": limit, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.parametrize("limit", NARROWEST_FIRST)
def test_the_widest_set_up_to_the_limit_that_rows_fill(program: Path, limit: str) -> None:
    usable = [one for one in cpu_has() if LANES[one] <= LANES[limit]]
    expected = []
    for width in (4, 8, 16):
        of_floats = [one for one in usable if width % LANES[one] == 0]
        # Converting 16-bit rows takes AVX2, and masks of their elements AVX-512.
        of_halves = [one for one in of_floats if one != "portable"] or usable
        expected.append("{} {}".format(of_floats[-1], of_halves[-1]))
    ran = chosen(program, limit)
    assert ran.stdout.splitlines() == expected
    assert "need AVX-512" not in ran.stderr


def test_an_unknown_limit_is_reported_once(program: Path) -> None:
    ran = chosen(program, "avx1024")
    assert ran.stdout == chosen(program, "AVX-512").stdout
    assert ran.stderr.count("need AVX-512, AVX2 or portable") == 1
    assert "'avx1024'" in ran.stderr


def test_users_are_told_the_instruction_set() -> None:
    assert graph_opt.instruction_set(16) == cpu_has()[-1]
    assert graph_opt.instruction_set(4) == "portable"
    assert graph_opt.instruction_set(5) == cpu_has()[:2][-1]  # masked vectors
    assert graph_opt.instruction_set(4, dtype="float16") == cpu_has()[-1]
    with pytest.raises(ValueError, match="at least 1 column"):
        graph_opt.instruction_set(0)
    with pytest.raises(ValueError, match="float64"):
        graph_opt.instruction_set(4, tf.float64)
