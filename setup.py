"""Builds the compiled ops into the package, and says which TensorFlow they are for.

    python setup.py build_ext --inplace     compiles what changed, into graph_opt

All is built by CMake, the ops against the TensorFlow that this Python imports. Its release is part
of the library's name, so libraries for several releases may lie side by side, and of a wheel's
version. All that does not depend on it is in pyproject.toml.

With GRAPH_OPT_PORTABLE=1 in the environment, as `make wheel` has it, a wheel's libraries load on
any Linux since glibc 2.17 (ops_src/portable).
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import glob
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from typing import Dict, Iterator, List, NoReturn, Optional, Tuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # Releases of setuptools for Python 3.7 leave it to another package.
    from wheel.bdist_wheel import bdist_wheel  # type: ignore[import-untyped]

SOURCES = "ops_src"
RELEASES = "tools/setup/releases.txt"
OLD_LIBRARIES = "build/old_libraries"  # As in ops_src/portable/portable.cmake.
OPS = "libgraph_opt_ops"
SERVING = "libgraph_opt_serving"  # Those that fused lookups need, and nothing else.
LIBRARIES = (
    "graph_opt.ops." + OPS,
    "graph_opt.ops." + SERVING,
    "graph_opt.launch.libgraph_opt_network",
)
# Of the wheels that contain TensorFlow.
TENSORFLOW_WHEEL = re.compile(r"tensorflow(?:_cpu|_gpu)?-(\d+\.\d+)[^-]*\.dist-info")


class BuildOps(build_ext):
    """Builds the libraries with CMake, for one release of TensorFlow always in the same directory.

    What `pip install -e .` compiles is then reused by `build_ext --inplace` and by a wheel:
    setuptools would give each of them its own directory, and the first a temporary one.
    """

    def build_extension(self, ext: Extension) -> None:
        """Configures when Python or TensorFlow is another one than last time, then compiles."""
        build = os.path.abspath(os.path.join("build", "cmake", "tf" + _installed()[0]))
        with _alone_in(build):
            self._build(ext, build, os.path.join(build, "graph_opt"))

    def _build(self, ext: Extension, build: str, output: str) -> None:
        self._configure(build, output)
        _, room, name = ext.name.split(".")
        target, folder = name[len("lib") :], room
        if not self.inplace and os.environ.get("GRAPH_OPT_PORTABLE") == "1":
            if not os.path.exists(OLD_LIBRARIES):
                _fail("{} is missing, which 'make wheel' writes".format(OLD_LIBRARIES))
            target, folder = target + "_portable", os.path.join("portable", room)
        _run([_program("cmake"), "--build", build, "--target", target])
        built = os.path.join(output, folder, name + ".so")
        library = os.path.abspath(self.get_ext_fullpath(ext.name))
        os.makedirs(os.path.dirname(library), exist_ok=True)
        shutil.copy2(built, library)

    def get_ext_filename(self, fullname: str) -> str:
        """Python does not load a library as an extension: no tag of a Python in its name."""
        release = ".tf" + _installed()[0] if fullname.endswith((OPS, SERVING)) else ""
        return os.path.join(*fullname.split(".")) + release + ".so"

    def _configure(self, build: str, output: str) -> None:
        stamp = os.path.join(build, "configured_for")
        compiler = os.environ.get("CXX", "")
        gpu_compiler = shutil.which("nvcc") or ""
        programs = [sys.executable, compiler, gpu_compiler, _program("cmake"), _program("ninja")]
        wanted = "\n".join([*programs, *_installed(), output])
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
    return [RELEASES] + sorted(
        os.path.join(directory, name)
        for directory, _, names in os.walk(SOURCES)
        for name in names
        if name.endswith((".cc", ".cmake", ".cu", ".h", ".map", ".py", ".txt"))
    )


def _version() -> str:
    """That of graph_opt, and for a wheel the release of TensorFlow that it is for: 0.1.0+tf2.15."""
    release: str = runpy.run_path(os.path.join("graph_opt", "cli", "release.py"))["RELEASE"]
    found = None if "sdist" in sys.argv else _found()
    return release if found is None else "{}+tf{}".format(release, found[0])


def _extras() -> Dict[str, List[str]]:
    """What users may want beside graph_opt: a TensorFlow for which the ops are, and more.

    Without TensorFlow, as for a source distribution, it is that of the first row of releases.txt.
    """
    with open(RELEASES, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    found = _found()
    wanted = rows[0][0] if found is None else found[0]
    row = next((row for row in rows if (row[0] + ".").startswith(wanted + ".")), [])
    # Of TensorFlow and Keras, any patch release will do.
    pinned = [re.sub(r"==(\d+\.\d+)\..*", r"==\1.*", one) for one in row if "==" in one]
    limits = dict(re.findall(r"(\S+)(<\S+)", " ".join(row)))
    parquet = ",".join(filter(None, ["pyarrow>=10", limits.pop("pyarrow", "")]))
    cpu = [*pinned, *map("".join, limits.items())]
    gpu = [re.sub("^tensorflow-cpu=", "tensorflow=", one) for one in cpu]
    return {"cpu": cpu, "gpu": gpu, "horovod": ["horovod==0.28.1"], "parquet": [parquet]}


def _installed() -> Tuple[str, str]:
    """The release of TensorFlow to build for, and what is another one after an installation."""
    return _found() or _fail(
        "{} has no TensorFlow to build for: pip install tensorflow-cpu".format(sys.executable)
    )


@functools.lru_cache(maxsize=None)
def _found() -> Optional[Tuple[str, str]]:
    """As `_installed`, or None. TensorFlow is not imported, as that takes seconds."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        return None
    packages = os.path.dirname(os.path.dirname(found.origin))
    for path in glob.glob(os.path.join(packages, "tensorflow*.dist-info")):
        match = TENSORFLOW_WHEEL.fullmatch(os.path.basename(path))
        if match:
            return match.group(1), "{} of {}".format(path, os.path.getmtime(path))
    _fail("{} has a TensorFlow that pip did not install: its release is unknown".format(packages))


@contextlib.contextmanager
def _alone_in(build: str) -> Iterator[None]:
    """Waits for another build in this directory: two at once would spoil Ninja's log."""
    os.makedirs(os.path.dirname(build), exist_ok=True)
    with open(build + ".lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    version=_version(),
    extras_require=_extras(),
    ext_modules=[Extension(name, sources=[], depends=_source_files()) for name in LIBRARIES],
    cmdclass={"build_ext": BuildOps, "bdist_wheel": BuildWheel},
)
