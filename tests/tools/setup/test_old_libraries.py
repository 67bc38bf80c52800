"""A library that is linked against old ones gets on with programs that are not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import List, Set, Tuple

import pytest

from graph_opt.compat.version_names import release_numbers

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
STUBS = REPOSITORY / "build" / "old_libraries"
OPS_SRC = REPOSITORY / "ops_src"
OLDEST = {"GLIBC": (2, 17), "GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8, 0)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not STUBS.exists(), reason="no build/old_libraries: make wheel"),
]


def compile_with(flags: List[str], *arguments: object) -> None:
    command = ["c++", "-std=c++14", "-O1", "-Wall", "-pthread", *flags, *map(str, arguments)]
    subprocess.run(command, check=True, timeout=900)


def portable_flags() -> List[str]:
    """The flags with which portable.cmake links."""
    text = (OPS_SRC / "portable" / "portable.cmake").read_text("utf-8")
    linked = r"PRIVATE (?:\$\{ARGN\} )?(-L[^)]*)\)|PRIVATE (-lpthread[^)]*)\)"
    listed = re.findall(linked, text)
    assert len(listed) == 2
    flags = " ".join(one or other for one, other in listed).split()
    places = {
        "${GRAPH_OPT_OLD_LIBRARIES}": STUBS,
        "${exported_names}": OPS_SRC / "portable" / "exported_names.map",
    }
    for variable, path in places.items():
        flags = [flag.replace(variable, str(path)) for flag in flags]
    assert not any("$" in flag for flag in flags)
    return flags


def needed(library: Path) -> Set[Tuple[str, Tuple[int, ...]]]:
    told = subprocess.run(
        ["readelf", "-VW", str(library)], check=True, stdout=subprocess.PIPE, text=True
    )
    versions = re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)", told.stdout)
    return {(name, tuple(int(number) for number in text.split("."))) for name, text in versions}


@pytest.mark.parametrize("abi", [0, 1], ids=["TensorFlow 1", "TensorFlow 2"])
def test_a_portable_library_shares_objects_with_others(tmp_path: Path, abi: int) -> None:
    flags = ["-D_GLIBCXX_USE_CXX11_ABI={}".format(abi), "-I", str(OPS_SRC), "-I", str(HERE)]
    newer = OPS_SRC / "portable" / "newer_functions.cc"
    library, program = tmp_path / "libportable.so", tmp_path / "program"
    hidden = ["-shared", "-fPIC", "-fvisibility=hidden"]
    compile_with(
        flags, *hidden, HERE / "portable_library.cc", newer, *portable_flags(), "-o", library
    )
    compile_with(
        flags,
        HERE / "portable_program.cc",
        newer,
        library,
        "-Wl,-rpath," + str(tmp_path),
        "-o",
        program,
    )
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (0, "all well\n")
    assert [one for one in needed(library) if one[1] > OLDEST[one[0]]] == []
    assert ("GLIBCXX", (3, 4)) in needed(library)


@pytest.mark.parametrize("library", ["graph_opt_ops", "graph_opt_serving", "graph_opt_network"])
def test_the_libraries_of_wheels_need_no_newer_ones(library: str) -> None:
    build = REPOSITORY / "build" / "cmake" / "tf{}.{}".format(*release_numbers()[:2])
    target = library + "_portable"
    command = [
        str(Path(sys.executable).parent / "cmake"),
        "--build",
        str(build),
        "--target",
        target,
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout
    (written,) = build.glob("**/portable/*/lib{}.so".format(library))
    assert [one for one in needed(written) if one[1] > OLDEST[one[0]]] == []
