"""The buffer without TensorFlow: builds and runs `bounded_buffer*_test.cc`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import SANITIZERS, build, run, sanitized

HERE = Path(__file__).resolve().parent
SOURCES = sorted(HERE.glob("bounded_buffer*_test.cc"))


def names_in(source: Path) -> List[str]:
    """Names of the tests in a C++ source."""
    return re.findall(r"TEST\((\w+)\),", source.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def programs(compiled_once: MadeOnce) -> Dict[Path, Path]:
    return {
        source: build(compiled_once, source.name, ["-O1"], with_functors=False)
        for source in SOURCES
    }


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
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_bounded_buffer_under_a_sanitizer(
    compiled_once: MadeOnce, source: Path, sanitizer: str
) -> None:
    run(build(compiled_once, source.name, sanitized(sanitizer), with_functors=False))
