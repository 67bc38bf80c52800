"""`graph-opt check -np 2`: all ranks of a training with Horovod are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from tests.cli.test_horovod_limits import AHEAD, DIVIDED, REPOSITORY, SCRIPT
from tests.horovod_processes import NEEDS_HOROVOD
from tests.json_documents import validated

pytestmark = [pytest.mark.slow, NEEDS_HOROVOD]


def checked(folder: Path, options: str, *arguments: str) -> Tuple[int, Dict[str, Any], str]:
    """The exit code, the result, and what was printed."""
    config = folder / "config.pbtxt"
    config.write_text("graph_options {{ optimizer_options {{ {} }} }}".format(options))
    command = ["-m", "graph_opt.cli", "check", "-np", "2", "--json", "result.json"]
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *command, "--config", str(config), str(SCRIPT), "losses", *arguments],
        cwd=str(folder),
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=500,
    )
    text = done.stdout + done.stderr
    return done.returncode, validated((folder / "result.json").read_text()), text


@pytest.mark.parametrize("more", ["", DIVIDED], ids=["replicated", "divided"])
def test_both_ranks_are_compared(more: str, tmp_path: Path) -> None:
    limit = 'staleness_limit { table: "." updates: 0 }'
    code, result, text = checked(tmp_path, AHEAD.format(1, limit) + more, "adagrad")
    assert code == 0, text
    assert result["verdict"] in ("equal", "rounding")
    assert set(result["staleness"]["scalars"]) == {
        "mean_squared_error/value:0 of rank {}".format(rank) for rank in range(2)
    }
    assert ("sharded across ranks were not compared" in text) == bool(more)


def test_the_rank_that_cannot_be_repeated_is_named(tmp_path: Path) -> None:
    code, result, text = checked(tmp_path, AHEAD.format(1, ""), "adagrad", "unseeded")
    assert code == 2 and result["verdict"] == "unchecked", text
    assert " of rank 1" in result["reason"]
