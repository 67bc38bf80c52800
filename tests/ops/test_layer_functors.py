"""Layers over repeated columns without TensorFlow: builds and runs C++ tests."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import QUICK, SANITIZERS, build, run, sanitized

TEST_OF_PLACES = "place_layers_functors_test.cc"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_layer_functors(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, "layer_functors_test.cc", sanitized(sanitizer), with_functors=False))


def test_place_layers_functors(compiled_once: MadeOnce) -> None:
    run(build(compiled_once, TEST_OF_PLACES, QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_place_layers_functors_under_a_sanitizer(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, TEST_OF_PLACES, sanitized(sanitizer)))
