"""The functors of group lookups without TensorFlow: builds and runs `group_functors_test.cc`."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import List, Sequence

import pytest

HERE = Path(__file__).resolve().parent
OPS_SRC = HERE.parents[1] / "ops_src"
FLAGS = ["-std=c++14", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread"]
AVX2 = ["-mavx2", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
SETS = {"rows/row_kernels_avx2.cc": AVX2, "rows/row_kernels_avx512.cc": AVX512}
FUNCTORS = [
    "apply/group_apply.cc",
    "lookup/bag_order.cc",
    "lookup/group_gradient.cc",
    "lookup/group_lookup.cc",
    "lookup/occurrences.cc",
    "lookup/weight_gradient.cc",
    "rows/row_kernels.cc",
    "rows/row_kernels_portable.cc",
]


def build(
    folder: Path,
    flags: Sequence[str],
    test: str = "group_functors_test.cc",
    functors: Sequence[str] = FUNCTORS,
) -> Path:
    """Compiles the test with the functors, each instruction set with its own flags."""
    own = SETS if platform.machine() == "x86_64" else {}
    sources = [OPS_SRC / source for source in [*functors, *own]] + [HERE / test]
    running = []
    objects: List[str] = []
    for source in sources:
        objects.append(str(folder / (source.stem + ".o")))
        special = own.get("rows/" + source.name, [])
        command = ["c++", *FLAGS, *flags, *special, "-I", str(OPS_SRC), "-I", str(HERE)]
        running.append(subprocess.Popen([*command, "-c", str(source), "-o", objects[-1]]))
    assert [one.wait(timeout=300) for one in running] == [0] * len(running)
    program = folder / Path(test).stem
    subprocess.run(["c++", *flags, "-pthread", *objects, "-o", str(program)], check=True)
    return program


def run(program: Path) -> None:
    """Runs it and shows what it says when it fails."""
    ran = subprocess.run(
        [str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout


def test_group_functors(tmp_path: Path) -> None:
    run(build(tmp_path, ["-O1"]))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_group_functors_under_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    run(build(tmp_path, ["-O1", "-g", "-fsanitize=" + sanitizer, "-fno-sanitize-recover=all"]))
