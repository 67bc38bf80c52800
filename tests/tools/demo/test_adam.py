"""The demo's figures of Adam: the same weights by TensorFlow alone and by graph_opt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.bench.training.contenders import Setting
from tools.bench.training.sessions import DEFERRED, STOCK
from tools.bench.turns import Schedule, run_in_turns
from tools.bench.workloads.wide import model
from tools.bench.workloads.wide.data import DataOptions
from tools.bench.workloads.wide.workload import wide_workload
from tools.bench.workloads.workload import Learning
from tools.demo.adam import adam_report, train_with_adam

ROUNDING = 1e-5


@pytest.mark.slow
def test_both_train_the_same_weights_and_the_report_says_so(tmp_path: Path) -> None:
    data = DataOptions(columns=3, most_ids=2, buckets=40)
    workload = wide_workload(tmp_path, 512, data, model.ModelOptions(4, (8,)), 32, seed=1)
    setting = Setting(workload, Learning("adam", 0.001))
    schedule = Schedule(rounds=2, steps=3, warm_up=4, settle=1)
    part = train_with_adam(
        setting, schedule, lambda title, contenders, given: run_in_turns(contenders, given)
    )
    assert (part.first_steps, part.steps) == (4, 12)
    assert part.weights == 3 * 40 * 4 + 12 * 8 + 8 + 8 + 1
    assert 0 <= part.difference < ROUNDING and part.last_difference < ROUNDING
    assert {lookup.update for lookup in part.report.fused_lookups} == {"deferred"}
    assert abs(part.scores[STOCK].log_loss - part.scores[DEFERRED].log_loss) < ROUNDING
    said = adam_report(part, "A small model")
    assert re.search(r"^A small model: [0-9.]+ times as fast$", said, re.MULTILINE)
    assert re.search(r"difference of a weight: \S+ after 4 steps, \S+ after 12 steps$", said, re.M)
    assert max(map(len, said.splitlines())) <= 80
    assert "3 of 3 lookups fused" in said
