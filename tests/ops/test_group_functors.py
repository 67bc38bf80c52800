"""The functors of group lookups without TensorFlow: builds and runs `group_functors_test.cc`."""

from __future__ import annotations

import platform
import subprocess
from functools import partial
from pathlib import Path
from typing import Iterable, Sequence, Tuple

import pytest

from tests.conftest import MadeOnce

HERE = Path(__file__).resolve().parent
OPS_SRC = HERE.parents[1] / "ops_src"
FLAGS = ["-std=c++14", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread"]
AVX2 = ["-mavx2", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
SETS = {"rows/row_kernels_avx2.cc": AVX2, "rows/row_kernels_avx512.cc": AVX512}
# Always checks for undefined behaviour, since that costs little.
QUICK = ("-O1", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=all")
FUNCTORS = [
    "apply/group_apply.cc",
    "lookup/bag_order.cc",
    "lookup/group_gradient.cc",
    "lookup/group_lookup.cc",
    "lookup/occurrences.cc",
    "lookup/weight_gradient.cc",
    "optimizers/description.cc",
    "optimizers/optimizer.cc",
    "rows/row_kernels.cc",
    "rows/row_kernels_portable.cc",
    "scratch/scratch_pool.cc",
]


def compile_all(sources: Iterable[Path], flags: Sequence[str], folder: Path) -> None:
    """Compiles sources in parallel, each instruction set with its own flags."""
    running = []
    for source in sources:
        own = SETS.get("rows/" + source.name, [])
        command = ["c++", *FLAGS, *flags, *own, "-I", str(OPS_SRC), "-I", str(HERE)]
        output = str(folder / (source.stem + ".o"))
        running.append(subprocess.Popen([*command, "-c", str(source), "-o", output]))
    assert [one.wait(timeout=900) for one in running] == [0] * len(running)


def functor_objects(made_once: MadeOnce, flags: Sequence[str]) -> Path:
    """The folder with the object files of the functors, which are compiled once."""
    own = list(SETS) if platform.machine() == "x86_64" else []
    shared = [OPS_SRC / source for source in [*FUNCTORS, *own]]
    return made_once("functors" + "".join(flags), partial(compile_all, shared, flags))


def build(
    made_once: MadeOnce,
    program: Path,
    flags: Sequence[str],
    test: str = "group_functors_test.cc",
    others: Sequence[str] = (),
) -> Path:
    """Links a test with the functors of group lookups and `others`."""
    objects = functor_objects(made_once, flags)
    compile_all([HERE / test, *(OPS_SRC / source for source in others)], flags, program.parent)
    linked = [*objects.glob("*.o"), *program.parent.glob("*.o")]
    command = ["c++", *flags, "-pthread", *map(str, linked), "-o", str(program)]
    subprocess.run(command, check=True, timeout=900)
    return program


def sanitized(sanitizer: str) -> Tuple[str, ...]:
    return ("-O1", "-g", "-fsanitize=" + sanitizer, "-fno-sanitize-recover=all")


def run(program: Path) -> None:
    """Runs it and shows its output if it fails."""
    ran = subprocess.run(
        [str(program)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800
    )
    assert ran.returncode == 0, ran.stdout


def test_group_functors(made_once: MadeOnce, tmp_path: Path) -> None:
    run(build(made_once, tmp_path / "test", QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_group_functors_under_a_sanitizer(
    made_once: MadeOnce, tmp_path: Path, sanitizer: str
) -> None:
    run(build(made_once, tmp_path / "test", sanitized(sanitizer)))
