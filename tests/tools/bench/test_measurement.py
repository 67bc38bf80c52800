"""Timing in turns: the figures' arithmetic, and all contenders on a small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, List

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tools.bench.ancestors import ancestors
from tools.bench.cluster.loopback import Cluster
from tools.bench.training import measurement
from tools.bench.training.contenders import (
    FLOORS,
    LOOKUPS_ALONE,
    MAIN_ALONE,
    PRODUCTS_ALONE,
    Contender,
    Setting,
    Turn,
    open_halves,
    open_trainer,
)
from tools.bench.training.floor import lookups_alone
from tools.bench.training.measurement import figures, measure
from tools.bench.training.sessions import (
    ASYNC,
    BOTH,
    FUSED,
    MODES,
    STOCK,
    Prefetching,
    SessionOptions,
)
from tools.bench.turns import Schedule, run_in_turns
from tools.bench.workloads.wide import model
from tools.bench.workloads.wide.data import DataOptions
from tools.bench.workloads.wide.workload import wide_workload
from tools.bench.workloads.workload import Learning, training_graph


def turn(seconds_per_step: float, cpu_per_step: float = 0.0) -> Turn:
    return Turn(10, 10 * seconds_per_step, {"worker": 10 * cpu_per_step}, (), {})


def timed(**seconds: List[float]) -> Dict[str, List[Turn]]:
    return {name: [turn(value) for value in values] for name, values in seconds.items()}


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    data = DataOptions(columns=4, most_ids=3, buckets=50)
    workload = wide_workload(tmp_path, 512, data, model.ModelOptions(4, (8,)), 32, seed=1)
    return Setting(workload, session=SessionOptions(prefetching=Prefetching(2, 2)))


def test_figures_are_medians_and_the_gain_over_what_could_be_gained() -> None:
    turns = timed(
        stock=[9.0, 10.0, 90.0],
        async_=[1.0, 7.0, 8.0],
        main_alone=[6.0, 6.0, 6.0],
        lookups_alone=[5.0, 5.0, 5.0],
    )
    turns[ASYNC] = turns.pop("async_")
    found = figures(turns, cores=2)
    assert (found.seconds[STOCK], found.seconds[ASYNC], found.floor) == (10.0, 7.0, 6.0)
    assert found.ratios_to_stock == pytest.approx({ASYNC: 10 / 7})
    assert found.overlap_efficiency == pytest.approx(3 / 4)


def test_the_floor_counts_cpu_time_over_cores_of_the_leaner_session() -> None:
    turns = {
        STOCK: [turn(10.0, cpu_per_step=18.0)],
        ASYNC: [turn(9.0, cpu_per_step=16.0)],
        MAIN_ALONE: [turn(6.0)],
        LOOKUPS_ALONE: [turn(5.0)],
    }
    assert figures(turns, cores=2).floor == 8.0
    assert figures(turns, cores=4).floor == 6.0


def test_what_was_not_measured_is_absent() -> None:
    found = figures(timed(stock=[1.0]))
    assert (found.ratios_to_stock, found.floor, found.overlap_efficiency) == ({}, None, None)
    at_the_floor = figures(
        {**timed(stock=[1.0], main_alone=[1.0], lookups_alone=[0.5]), ASYNC: [turn(1.0)]}
    )
    assert at_the_floor.overlap_efficiency is None


def test_each_mode_has_its_ratio() -> None:
    found = figures(timed(stock=[6.0], fused=[4.0], both=[3.0]))
    assert found.ratios_to_stock == {FUSED: 1.5, BOTH: 2.0}


def test_turns_alternate_after_a_warm_up_of_each() -> None:
    ran: List[str] = []

    def contender(name: str) -> Contender:
        return Contender(name, Cluster(), None, lambda: ran.append(name))

    schedule = Schedule(rounds=2, steps=3, warm_up=1, settle=2)
    turns = run_in_turns([contender("A"), contender("B")], schedule)
    assert "".join(ran) == "AB" + 2 * (5 * "A" + 5 * "B")
    assert [turn.steps for turn in turns["A"]] == [3, 3]
    assert len(turns["B"][0].step_seconds) == 3


def test_several_threads_share_the_steps() -> None:
    ran: List[int] = []
    contender = Contender("A", Cluster(), None, lambda: ran.append(1), threads=3)
    assert contender.run(50).steps == len(ran) == 50


@pytest.mark.slow
def test_all_contenders_run_in_turns(setting: Setting) -> None:
    modes = (*MODES, *FLOORS)
    turns = measure(setting, Schedule(rounds=2, steps=5, warm_up=2, settle=2), modes)
    assert set(turns) == set(modes)
    for name, runs in turns.items():
        assert [run.steps for run in runs] == [5, 5]
        assert all(run.seconds > 0 for run in runs), name
    for mode in (ASYNC, BOTH):
        # Main took a batch in each step; how far its lookups' threads got in the turn is open.
        lookups = list(turns[mode][0].buffers.values())[-1]
        assert lookups["take_count"] == 5
    assert turns[STOCK][0].buffers == turns[FUSED][0].buffers == {}


def test_halves_need_an_optimized_graph(setting: Setting) -> None:
    with pytest.raises(ValueError, match="cut from mode async"):
        measure(setting, Schedule(), modes=(STOCK, MAIN_ALONE))
    with pytest.raises(ValueError, match="one prefetch stage, this one has 0"):
        lookups_alone(training_graph(setting.workload, Learning(), Cluster()))


@pytest.mark.parametrize("mode", [pytest.param(ASYNC, marks=pytest.mark.slow), BOTH])
def test_main_alone_trains_and_lookups_alone_does_not(mode: str, setting: Setting) -> None:
    cluster = Cluster()
    training = training_graph(setting.workload, Learning(), cluster)
    with open_trainer(setting, mode, training, cluster):
        with open_halves(setting, training, cluster) as halves:
            for name, steps in ((MAIN_ALONE, 7), (LOOKUPS_ALONE, 0)):
                session = halves[name].session
                before = session.run("wide/input_layer/column_000_embedding/embedding_weights:0")
                halves[name].run(7)
                after = session.run("wide/input_layer/column_000_embedding/embedding_weights:0")
                assert session.run("global_step:0") == steps
                assert np.array_equal(before, after) == (steps == 0)


def test_products_alone_are_those_of_main(setting: Setting) -> None:
    cluster = Cluster()
    training = training_graph(setting.workload, Learning(), cluster)
    with open_trainer(setting, BOTH, training, cluster):
        with open_halves(setting, training, cluster) as halves:
            halves[PRODUCTS_ALONE].run(2)
            main, alone = (halves[name].session.graph for name in (MAIN_ALONE, PRODUCTS_ALONE))
    run_by_main = ancestors([main.get_operation_by_name(training.train_op.name)])
    products = {each.name for each in run_by_main if each.type == "MatMul"}
    assert products == {each.name for each in alone.get_operations() if each.type == "MatMul"}
    assert len(products) == 6  # two layers, and the gradients of their weights and inputs


def test_the_command_line_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    sizes = "--columns 3 --buckets 20 --layers 4 --rows 100 --batch 16".split()
    schedule = "--rounds 1 --steps 2 --warm-up 0 --settle 0 --modes stock both".split()
    flags = ["--workload", "wide", "--data-dir", str(tmp_path), *sizes, *schedule]
    assert measurement.main(flags) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["figures"]["ratios_to_stock"]["both"] > 0
    assert len(printed["turns"]["both"]) == 1
    assert tf.get_default_graph().version == 0
