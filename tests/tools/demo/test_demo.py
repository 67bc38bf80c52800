"""`make demo` on a model small enough to test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.bench.training.sessions import MODES
from tools.demo import __main__ as demo

SIZES = (
    "--batch 32 --buckets 50 --adam-buckets 50 --dimension 4 --bottom 8 --top 8 --rows 2000".split()
)
SCHEDULE = "--rounds 1 --steps 5 --warm-up 2".split()


@pytest.mark.slow
def test_the_demo_trains_in_all_modes_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    folders = ["--data-dir", str(tmp_path), "--output", str(tmp_path)]
    assert demo.main([*SIZES, *SCHEDULE, *folders]) == 0
    printed = capsys.readouterr().out
    assert printed.index("DLRM with Adam: 26 tables of 50 x 4") < printed.index("adagrad")
    assert "26 of 26 lookups fused" in printed
    for line in ("Steps a second", "overlap efficiency", "AUC", "Who waited for whom"):
        assert line in printed
    for mode in MODES:
        (row,) = re.findall(rf"^  {mode} .*x$", printed, re.MULTILINE)
        assert len(row) <= 80
    assert f"{tmp_path}/timeline.png" in printed
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
