"""`graph-opt run -np 2`: rows miss as many updates as tables' limits allow, with real ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from tests.horovod_processes import NEEDS_HOROVOD

pytestmark = [pytest.mark.slow, NEEDS_HOROVOD]
REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "horovod_training.py"
FUSED = "do_group_embedding: true"
AHEAD = (
    "do_group_embedding: true do_async_embedding: true async_embedding_options {{ "
    "infer_io_stage: true prefetch_priority: 0 threads_num: {} capacity: 6 {} }}"
)
DIVIDED = " shard_tables: true shard_tables_options { min_table_bytes: 1 }"


def ranks_of(folder: Path, options: str, *arguments: str) -> List[Dict[str, Any]]:
    """What both ranks of a training print."""
    config = folder / "config.pbtxt"
    config.write_text("graph_options {{ optimizer_options {{ {} }} }}".format(options))
    launched = ["-m", "graph_opt.cli", "run", "-np", "2", "--config", str(config)]
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *launched, str(SCRIPT), *arguments],
        cwd=str(folder),
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    ranks = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(ranks) == 2 and ("run ahead" in done.stderr) == ("do_async" in options)
    return sorted(ranks, key=lambda rank: int(rank["rank"]))


@pytest.mark.parametrize(
    "optimizer, more",
    [("sgd", ""), ("adagrad", ""), ("momentum", ""), ("adam", ""), ("adagrad", DIVIDED)],
)
def test_rows_that_may_miss_nothing_train_as_fused(
    optimizer: str, more: str, tmp_path: Path
) -> None:
    limit = 'staleness_limit { table: "." updates: 0 }'
    fused = ranks_of(tmp_path, FUSED + more, "losses", optimizer)
    for threads in (1, 3):
        assert ranks_of(tmp_path, AHEAD.format(threads, limit) + more, "losses", optimizer) == fused


@pytest.mark.parametrize("more", ["", DIVIDED], ids=["replicated", "divided"])
def test_rows_miss_no_more_than_they_may(more: str, tmp_path: Path) -> None:
    limits = [
        'staleness_limit {{ table: "{}" updates: {} }}'.format(*each)
        for each in (("exact", 0), ("limited", 2))
    ]
    for rank in ranks_of(tmp_path, AHEAD.format(1, " ".join(limits)) + more, "rows"):
        exact, limited, free = zip(*rank["missed"])
        assert not any(exact)
        assert max(limited) == 2 and min(limited) >= 0
        assert max(free) > 2
