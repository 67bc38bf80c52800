"""The functors, compiled for aarch64 and run by an emulator (`make cross` installs both)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import Machine, build, run

HERE = Path(__file__).resolve().parent
LIBRARIES = HERE.parents[1] / "build" / "aarch64" / tf.__version__ / "tensorflow"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
AARCH64 = Machine(
    name="aarch64",
    compiler=COMPILER,
    libraries=str(LIBRARIES),
    emulator=(EMULATOR, "-L", "/usr/aarch64-linux-gnu"),
)
# The emulator keeps a record of each page of address space, of which dynamic tables reserve much;
# and it is too slow for the network, which keeps time.
NOT_EMULATED = {"dynamic_functors_test.cc", "network_functors_test.cc"}
TESTS = sorted({path.name for path in HERE.glob("*_functors_test.cc")} - NOT_EMULATED)
IS_HERE = LIBRARIES.exists() and bool(shutil.which(COMPILER) and shutil.which(EMULATOR))


@pytest.mark.slow
@pytest.mark.skipif(not IS_HERE, reason="no compiler, emulator or TensorFlow for aarch64")
@pytest.mark.parametrize("test", TESTS)
def test_functors_on_aarch64(compiled_once: MadeOnce, test: str) -> None:
    run(build(compiled_once, test, ["-O1"], machine=AARCH64), machine=AARCH64)
