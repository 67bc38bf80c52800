"""Builds the compiled ops into the package; all else is in pyproject.toml.

    python setup.py build_ext --inplace     compiles what changed, into graph_opt

All is built by CMake, the ops against the TensorFlow that this Python imports.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from typing import List, NoReturn, Optional, Tuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    sys.exit("graph_opt: setuptools is too old: pip install --upgrade setuptools")

SOURCES = "ops_src"
BUILD = os.path.join("build", "cmake")
LIBRARIES = ("graph_opt.ops.libgraph_opt_ops", "graph_opt.launch.libgraph_opt_network")


class BuildOps(build_ext):
    """Builds the libraries with CMake, always in the same directory.

    What `pip install -e .` compiles is then reused by `build_ext --inplace` and by a wheel:
    setuptools would give each of them its own directory, and the first a temporary one.
    """

    def build_extension(self, ext: Extension) -> None:
        """Configures when Python or TensorFlow is another one than last time, then compiles."""
        build = os.path.abspath(BUILD)
        output = os.path.join(build, "graph_opt")
        self._configure(build, output)
        _, room, name = ext.name.split(".")
        _run([_program("cmake"), "--build", build, "--target", name[len("lib") :]])
        library = os.path.abspath(self.get_ext_fullpath(ext.name))
        os.makedirs(os.path.dirname(library), exist_ok=True)
        shutil.copy2(os.path.join(output, room, name + ".so"), library)

    def get_ext_filename(self, fullname: str) -> str:
        """Python does not load a library as an extension: no tag of a Python in its name."""
        return os.path.join(*fullname.split(".")) + ".so"

    def _configure(self, build: str, output: str) -> None:
        stamp = os.path.join(build, "configured_for")
        compiler = os.environ.get("CXX", "")
        gpu_compiler = shutil.which("nvcc") or ""
        programs = [sys.executable, compiler, gpu_compiler, _program("cmake"), _program("ninja")]
        wanted = "\n".join([*programs, _tensorflow_identity(), output])
        if _content(stamp) == wanted:
            return
        _require_compiler()
        shutil.rmtree(build, ignore_errors=True)
        os.makedirs(build)
        _run(
            [
                _program("cmake"),
                "-S",
                os.path.abspath(SOURCES),
                "-B",
                build,
                "-G",
                "Ninja",
                "-DCMAKE_MAKE_PROGRAM=" + _program("ninja"),
                "-DPython_EXECUTABLE=" + sys.executable,
                "-DOUTPUT_DIRECTORY=" + output,
            ]
        )
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(wanted)


class BuildWheel(bdist_wheel):
    """A wheel for any Python 3: the library in it is no Python extension."""

    def run(self) -> None:
        """Builds from nothing but the sources."""
        # Modules deleted since an earlier build would come along.
        shutil.rmtree(self.get_finalized_command("build").build_lib, ignore_errors=True)
        super().run()

    def get_tag(self) -> Tuple[str, str, str]:
        """Python, ABI and platform of the wheel."""
        return ("py3", "none", super().get_tag()[2])


def _source_files() -> List[str]:
    """What belongs into a source distribution."""
    return sorted(
        os.path.join(directory, name)
        for directory, _, names in os.walk(SOURCES)
        for name in names
        if name.endswith((".cc", ".cmake", ".cu", ".h", ".py", ".txt"))
    )


def _tensorflow_identity() -> str:
    """Which TensorFlow the ops are built for, without importing it: that takes seconds."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        _fail(
            "{} has no TensorFlow to build for: pip install tensorflow-cpu".format(sys.executable)
        )
    directory = os.path.dirname(found.origin)
    header = os.path.join(directory, "include", "tensorflow", "core", "public", "version.h")
    return "{} of {}".format(directory, os.path.getmtime(header))


def _require_compiler() -> None:
    candidates = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    if not any(shutil.which(candidate.split()[0]) for candidate in candidates):
        _fail("no C++ compiler among {} (Debian: apt install g++)".format(", ".join(candidates)))


def _program(name: str) -> str:
    """Path of a program that pip installed beside this Python, or of the system's."""
    beside = sysconfig.get_path("scripts")
    found = shutil.which(name, path=beside) or shutil.which(name)
    return found or _fail("{0} is missing: pip install {0}".format(name))


def _run(command: List[str]) -> None:
    if subprocess.call(command) != 0:
        _fail("'{}' failed; see above".format(" ".join(command)))


def _content(path: str) -> Optional[str]:
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def _fail(reason: str) -> NoReturn:
    sys.exit("graph_opt: cannot build the ops: " + reason)


setup(
    ext_modules=[Extension(name, sources=[], depends=_source_files()) for name in LIBRARIES],
    cmdclass={"build_ext": BuildOps, "bdist_wheel": BuildWheel},
)
