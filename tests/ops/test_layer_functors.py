"""Layers over repeated columns without TensorFlow: builds and runs `layer_functors_test.cc`."""

from __future__ import annotations

import pytest

from tests.conftest import MadeOnce
from tests.ops.compiled_functors import SANITIZERS, build, run, sanitized


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_layer_functors(compiled_once: MadeOnce, sanitizer: str) -> None:
    run(build(compiled_once, "layer_functors_test.cc", sanitized(sanitizer), with_functors=False))
