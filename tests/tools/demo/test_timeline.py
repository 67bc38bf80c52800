"""Lanes of traced steps, and the picture of them."""

from __future__ import annotations

from pathlib import Path

import graph_opt
from tools.bench.cluster.loopback import Cluster
from tools.bench.training.contenders import Setting, open_trainer
from tools.bench.training.sessions import ASYNC, STOCK
from tools.bench.workloads.wide import model
from tools.bench.workloads.wide.data import DataOptions
from tools.bench.workloads.wide.workload import wide_workload
from tools.bench.workloads.workload import Learning, training_graph
from tools.demo.timeline import Bar, Lane, Panel, draw, longest_work, optimized_lanes, stock_lanes

STEPS = 4


def test_the_longest_stretch_without_a_wait_carries_the_number() -> None:
    assert longest_work(Bar(0, 1.0, 9.0)) == (1.0, 8.0)
    assert longest_work(Bar(0, 1.0, 9.0, [(6.0, 8.5), (1.5, 2.0)])) == (2.0, 4.0)


def test_lanes_show_every_step_with_its_batch(tmp_path: Path) -> None:
    data = DataOptions(columns=4, most_ids=3, buckets=50)
    workload = wide_workload(tmp_path, 512, data, model.ModelOptions(4, (8,)), 32, seed=1)
    cluster, setting = Cluster(), Setting(workload)
    graphs = {mode: training_graph(workload, Learning(), cluster) for mode in (STOCK, ASYNC)}
    hooks = [graph_opt.train.StepTraceHook()]
    with open_trainer(setting, ASYNC, graphs[ASYNC], cluster, hooks) as optimized:
        lanes = optimized_lanes(optimized, STEPS)
    report = graph_opt.report(graphs[ASYNC].graph)
    assert report is not None
    with open_trainer(setting, STOCK, graphs[STOCK], cluster) as stock:
        plain = stock_lanes(stock, graphs[STOCK].train_op, report.hidden, STEPS)
    assert [lane.title for lane in lanes] == ["input", "lookups", "step"]
    assert [lane.title for lane in plain] == ["lookups", "step"]
    for lane in (lanes[-1], *plain):
        assert [bar.batch for bar in lane.bars] == list(range(STEPS))
    for lookup, step in zip(plain[0].bars, plain[1].bars):
        assert step.start <= lookup.start < lookup.end <= step.end
    started = {bar.batch: bar.start for bar in lanes[1].bars}
    for bar in lanes[2].bars:
        # The lookups of a batch begin before its step ends, perhaps before the trace began. Their
        # end says nothing: main may have taken the batch before the put returns.
        assert started.get(bar.batch, 0.0) < bar.end


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    lanes = [Lane("lookups", [Bar(1, 0.0, 0.004, [(0.002, 0.004)])]), Lane("step", [Bar(0, 0, 1)])]
    path = tmp_path / "made" / "timeline.png"
    draw([[Panel("stock", lanes), Panel("async", lanes)], [Panel("both", lanes)]], path)
    assert path.read_bytes().startswith(b"\x89PNG")
