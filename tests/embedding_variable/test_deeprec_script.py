"""A script for DeepRec runs unchanged, and gives the same numbers with fused lookups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forked_programs import start_graph_opt

SCRIPT = Path(__file__).with_name("deeprec_script.py")
CONFIGS = {
    "fused": "graph_options { optimizer_options { do_group_embedding: true } }",
    "plain": "allow_soft_placement: true",
}


def run(folder: Path, config: str, *arguments: str) -> Any:
    file = folder / (config + ".pbtxt")
    file.write_text(CONFIGS[config])
    return start_graph_opt(["run", "--config", str(file), str(SCRIPT), *arguments], folder)


@pytest.mark.slow
def test_a_script_for_deeprec_runs_unchanged(tmp_path: Path) -> None:
    running = [run(tmp_path, "fused", "--estimator"), run(tmp_path, "plain")]
    fused, plain = [one.wait() for one in running]
    assert (fused.returncode, plain.returncode) == (0, 0), fused.stderr + plain.stderr
    assert "2 of 2 lookups fused into 1 op" in fused.stderr
    *trained, (loss, predictions) = json.loads(fused.stdout)
    assert trained == json.loads(plain.stdout)[:-1]
    losses, _, rows = trained
    assert (len(losses), predictions) == (8, 8 * 16)
    assert rows > 8
    assert 0 < loss < 2
