"""The buffer without TensorFlow: builds and runs `bounded_buffer*_test.cc`."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, Sequence

import pytest

from tests.conftest import MadeOnce

HERE = Path(__file__).resolve().parent
OPS_SRC = HERE.parents[1] / "ops_src"
SOURCES = sorted(HERE.glob("bounded_buffer*_test.cc"))


def names_in(source: Path) -> List[str]:
    """Names of the tests in a C++ source."""
    return re.findall(r"TEST\((\w+)\),", source.read_text(encoding="utf-8"))


def build(source: Path, folder: Path, flags: Sequence[str]) -> Path:
    """Compiles C++ tests."""
    program = folder / source.stem
    command: List[str] = ["c++", "-std=c++14", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += list(flags) + ["-I", str(OPS_SRC), str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=900)
    return program


def run(program: Path, *arguments: str) -> None:
    """Runs C++ tests and shows their output if they fail."""
    ran = subprocess.run(
        [str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.fixture(scope="module")
def programs(made_once: MadeOnce) -> Dict[Path, Path]:
    def make(folder: Path) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda source: build(source, folder, ["-O1"]), SOURCES))

    folder = made_once("bounded_buffer", make)
    return {source: folder / source.stem for source in SOURCES}


@pytest.mark.parametrize(
    "source, test",
    [pytest.param(source, test, id=test) for source in SOURCES for test in names_in(source)],
)
def test_bounded_buffer(programs: Dict[Path, Path], source: Path, test: str) -> None:
    run(programs[source], test)


def test_an_unknown_test_is_an_error(programs: Dict[Path, Path]) -> None:
    assert len(programs) == 2
    for program in programs.values():
        with pytest.raises(AssertionError):
            run(program, "NoSuchTest")


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_bounded_buffer_under_a_sanitizer(tmp_path: Path, source: Path, sanitizer: str) -> None:
    flags = ["-O1", "-g", "-fsanitize=" + sanitizer, "-fno-sanitize-recover=all"]
    run(build(source, tmp_path, flags))
