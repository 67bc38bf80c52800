"""Compiles the C++ in ops_src that does not use TensorFlow, and links tests with it.

The compiler sees none of TensorFlow's headers but Abseil's, as in ops_src/CMakeLists.txt. Abseil
itself is linked from TensorFlow's library.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Iterable, List, NamedTuple, Sequence, Tuple

import tensorflow as tf

from tests.conftest import MadeOnce

HERE = Path(__file__).resolve().parent
OPS_SRC = HERE.parents[1] / "ops_src"
SUPPRESSIONS = HERE / "thread_sanitizer_suppressions.txt"
FUNCTORS = (
    "apply deferred dynamic examples exchange initial keys layers lookup network optimizers packed "
    "pages requests scratch threads"
).split()
ROOMS = ("rows", *FUNCTORS)  # What takes longest to compile comes first.
HEADER_ROOMS = (*FUNCTORS, "buffer")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
AVX2 = ("-mavx2", "-mf16c")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
WITH_SUMS = ("-mfma", "-ffp-contract=fast")
INSTRUCTION_SETS = {
    "row_kernels_avx2.cc": AVX2,
    "row_kernels_avx512.cc": AVX512,
    "layer_kernels_avx2.cc": (*AVX2, *WITH_SUMS),
    "layer_kernels_avx512.cc": (*AVX512, *WITH_SUMS),
}
# Always checks for undefined behaviour, since that costs little.
SANITIZERS = ("undefined", "address", "thread")
# While GCC checks for null, the address of a function is no constant to it, as later releases of
# Abseil need.
_CONSTANT_ADDRESSES = ("-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute",)
_FIRST_ABSEIL_WITH_CONSTANTS = 20250127


def _abseil_release() -> int:
    """Such as 20230125; 0 where it has none, as in TensorFlow 1."""
    header = Path(tf.sysconfig.get_include(), "absl", "base", "config.h").read_text("utf-8")
    found = re.search(r"define ABSL_LTS_RELEASE_VERSION (\d+)", header)
    return int(found.group(1)) if found else 0


QUICK = (
    "-O1",
    "-fPIC",
    "-fsanitize=undefined",
    "-fno-sanitize-recover=all",
    *(_CONSTANT_ADDRESSES if _abseil_release() >= _FIRST_ABSEIL_WITH_CONSTANTS else ()),
)


class Machine(NamedTuple):
    """What programs are compiled for: by default the machine that runs the tests."""

    name: str = platform.machine()
    compiler: str = "c++"
    libraries: str = tf.sysconfig.get_lib()  # the folder of TensorFlow's library
    emulator: Tuple[str, ...] = ()  # the command that runs programs


THIS = Machine()


def sanitized(sanitizer: str) -> Tuple[str, ...]:
    """Flags for one of `SANITIZERS`: two at a time would take several times as long to compile."""
    if sanitizer == "undefined":
        return QUICK
    flags = ("-O1", "-g1", "-fsanitize=" + sanitizer, "-fno-sanitize-recover=all")
    return (*flags, "-include", "unsanitized_abseil.h") if sanitizer == "address" else flags


def compile_all(
    compiled_once: MadeOnce,
    sources: Iterable[Path],
    flags: Sequence[str],
    folder: Path,
    machine: Machine = THIS,
) -> None:
    """Compiles sources to objects in a folder, each instruction set with its own flags."""
    command = [machine.compiler, *WARNINGS, *_flags_of_tensorflow(), "-ffp-contract=off"]
    command += ["-pthread", *flags, *_includes(compiled_once), "-I", str(HERE)]

    def compile_one(source: Path) -> None:
        own = INSTRUCTION_SETS.get(source.name, ())
        output = str(folder / (source.stem + ".o"))
        subprocess.run([*command, *own, "-c", str(source), "-o", output], check=True, timeout=900)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources))


def functor_objects(
    compiled_once: MadeOnce, flags: Sequence[str] = QUICK, machine: Machine = THIS
) -> List[Path]:
    """The objects of all functors, which are compiled once for each choice of flags."""
    sources = [path for room in ROOMS for path in sorted((OPS_SRC / room).glob("*.cc"))]
    if machine.name != "x86_64":
        sources = [path for path in sources if path.name not in INSTRUCTION_SETS]
    make = partial(compile_all, compiled_once, sources, flags, machine=machine)
    return sorted(compiled_once("functors" + _key(flags, machine), make).glob("*.o"))


def link(
    objects: Iterable[Path], flags: Sequence[str], output: Path, machine: Machine = THIS
) -> Path:
    """Links a program, or with `-shared` a library."""
    command = [machine.compiler, *flags, "-pthread", *map(str, objects), "-o", str(output)]
    command += ["-L" + machine.libraries, "-Wl,-rpath," + machine.libraries]
    command += [flag for flag in tf.sysconfig.get_link_flags() if not flag.startswith("-L")]
    subprocess.run(command, check=True, timeout=900)
    return output


def build(
    compiled_once: MadeOnce,
    test: str,
    flags: Sequence[str],
    with_functors: bool = True,
    machine: Machine = THIS,
) -> Path:
    """The program of a test."""
    source = HERE / test

    def make(folder: Path) -> None:
        compile_all(compiled_once, [source], flags, folder, machine)
        functors = functor_objects(compiled_once, flags, machine) if with_functors else []
        link([folder / (source.stem + ".o"), *functors], flags, folder / source.stem, machine)

    return compiled_once(source.stem + _key(flags, machine), make) / source.stem


def run(program: Path, *arguments: str, machine: Machine = THIS) -> None:
    """Runs C++ tests and shows their output if they fail."""
    ran = subprocess.run(
        [*machine.emulator, str(program), *arguments],
        env={**os.environ, "TSAN_OPTIONS": "suppressions={}".format(SUPPRESSIONS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stdout


def is_valid(source: str, compiled_once: MadeOnce, *flags: str) -> bool:
    """Whether a compiler that sees what functors see takes this source."""
    command = ["c++", *WARNINGS, "-fsyntax-only", "-x", "c++", *flags, "-"]
    command += _includes(compiled_once)
    return subprocess.run(command, input=source, text=True, timeout=900).returncode == 0


def _key(flags: Sequence[str], machine: Machine) -> str:
    return "".join(flags) + ("" if machine is THIS else machine.name)


def _flags_of_tensorflow() -> List[str]:
    """Flags for the language standard and ABI of TensorFlow's Abseil."""
    flags = [flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I")]
    if not any("-std=" in flag for flag in flags):
        flags.append("-std=c++14")  # TensorFlow 1 leaves it open.
    return flags


def _includes(compiled_once: MadeOnce) -> List[str]:
    """Flags for the folders of headers: of TensorFlow's, only Abseil's."""

    def make(folder: Path) -> None:
        (folder / "absl").symlink_to(Path(tf.sysconfig.get_include(), "absl"))

    abseil = compiled_once("abseil", make)
    system = (
        [abseil] if (abseil / "absl" / "status").exists() else [abseil, OPS_SRC / "tensorflow1"]
    )
    return [*(part for folder in system for part in ("-isystem", str(folder))), "-I", str(OPS_SRC)]
