"""Builds the kernels with nvcc, and with nothing of TensorFlow."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import List, Optional, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = (
    REPOSITORY / "ops_src" / "cuda" / "group_embedding_cuda.cu",
    REPOSITORY / "ops_src" / "cuda" / "group_on_device.cc",
    REPOSITORY / "ops_src" / "optimizers" / "description.cc",
    REPOSITORY / "ops_src" / "optimizers" / "optimizer.cc",
    REPOSITORY / "tools" / "gpu_check" / "device_memory.cu",
)
# What the op library is built for, too (ops_src/CMakeLists.txt).
ARCHITECTURES = ("70", "80", "90")


class BuildError(Exception):
    """The kernels could not be built; the message says why."""


def nvcc() -> Optional[str]:
    """Path of nvcc, or None where there is none."""
    return shutil.which("nvcc")


def known_architectures(compiler: str) -> List[str]:
    """Those of `ARCHITECTURES` that a compiler still knows; newer ones have dropped 70."""
    listed = subprocess.run(
        [compiler, "--list-gpu-arch"], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    return [one for one in ARCHITECTURES if "compute_" + one in listed]


def build(folder: Path, architectures: Sequence[str] = ()) -> Path:
    """The library, made in `folder` for all known architectures or for those given.

    Raises:
        BuildError: there is no nvcc, or it fails.
    """
    compiler = nvcc()
    if compiler is None:
        raise BuildError("there is no nvcc: install the CUDA toolkit")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libgroup_embedding_cuda.so"
    command = [compiler, "-shared", "-o", str(library), "-std=c++17", "-O3", "-fmad=false"]
    command += ["-Xcompiler", "-fPIC,-Wall,-Wextra", "-I", str(REPOSITORY / "ops_src")]
    command += ["--threads", "0"]
    for one in architectures or known_architectures(compiler):
        command += ["-gencode", "arch=compute_{0},code=[sm_{0},compute_{0}]".format(one)]
    command += [str(source) for source in SOURCES]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        raise BuildError("nvcc failed:\n" + ran.stdout)
    return library
