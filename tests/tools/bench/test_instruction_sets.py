"""What the benchmarks say of instruction sets, and what they leave out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.bench import slow_peer
from tools.bench import group_lookup
from tools.bench.group_lookup_peers import Program
from tools.bench.instruction_sets import UNKNOWN, cpu_flags, of_library, of_tensorflow

LOG = (
    "I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized to "
    "use available CPU instructions in performance-critical operations.\n"
    "To enable the following instructions: {}, in other operations, rebuild TensorFlow with the "
    "appropriate compiler flags.\n"
)
FLAGS = frozenset(["sse4_2", "avx", "avx2", "f16c", "avx512f"])


@pytest.mark.parametrize(
    "missing, expected",
    [("AVX2 AVX512F FMA", "AVX"), ("AVX512F AVX512_VNNI", "AVX2"), ("FMA", "AVX-512")],
)
def test_tensorflow_has_what_its_log_does_not_miss(missing: str, expected: str) -> None:
    assert of_tensorflow(LOG.format(missing), FLAGS) == expected


def test_what_cannot_be_told_is_unknown(tmp_path: Path) -> None:
    assert of_tensorflow("", FLAGS) == UNKNOWN
    assert of_tensorflow(LOG.format("FMA"), frozenset()) == UNKNOWN
    assert of_library(tmp_path / "missing.so") == UNKNOWN


@pytest.mark.skipif(not {"avx2", "f16c"} <= cpu_flags(), reason="needs a CPU with AVX2")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs binutils")
def test_registers_of_a_library_are_found(tmp_path: Path) -> None:
    source = tmp_path / "sums.c"
    source.write_text("void f(float* a) { for (int i = 0; i < 64; ++i) a[i] += 1; }\n")
    found = []
    for flags in (["-msse2"], ["-mavx2"]):
        library = tmp_path / "library.so"
        command = ["cc", "-O3", *flags, "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run(command, check=True, timeout=300)
        found.append(of_library(library))
    assert found == ["SSE", "AVX"]


def test_a_peer_on_its_reference_path_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Program("slow", slow_peer.__name__, Path(sys.executable))
    monkeypatch.setattr(group_lookup, "PROGRAMS", (program,))
    outcome = group_lookup.run(quick=True)
    assert outcome.records == ()
    reasons = {one.params["implementation"]: one.reason for one in outcome.absent}
    assert reasons["slow"] == slow_peer.REASON
